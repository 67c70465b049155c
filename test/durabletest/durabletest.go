package durabletest

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Step does one step, or returns what it returned. cut says that an earlier try began and has no end.
type Step func(name string, do func(cut bool) (string, error)) (string, error)

// Engine does durable work below a directory. Each process makes one.
type Engine interface {
	// Work does the work with that id, or continues it, and ends it with its result. Work that has ended
	// returns its result.
	Work(ctx context.Context, id string, body func(step Step) (string, error)) (string, error)
}

// Ended is what an implementation knows of work that has ended.
type Ended struct {
	// Finished counts the records of its end, Left the records of its steps.
	Finished, Left int
}

const (
	steps   = 5
	workID  = "work"
	logFile = "effects.log"
	dirEnv  = "HORTUS_TEST_DURABLE_DIR"
	killEnv = "HORTUS_TEST_DURABLE_KILL"
	// KillsEnv is how many random kills the suite makes.
	KillsEnv = "HORTUS_TEST_KILLS"
)

// ChildOf returns the directory of the work if this process is a child, and "" otherwise.
func ChildOf() string { return os.Getenv(dirEnv) }

// points are the named places at which a child kills itself.
func points() (all []string) {
	for n := 1; n <= steps; n++ {
		for _, where := range []string{"before", "after", "recorded"} {
			all = append(all, fmt.Sprint(where, " ", n))
		}
	}
	return append(all, "ended")
}

// Child does the work. It prints the result, or is killed.
func Child(ctx context.Context, e Engine) error {
	f, err := os.OpenFile(filepath.Join(ChildOf(), logFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	at := os.Getenv(killEnv)
	here := func(point string) {
		if point == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way
		}
	}
	result, err := e.Work(ctx, workID, func(step Step) (string, error) {
		fmt.Println(working)
		sum := ""
		for n := 1; n <= steps; n++ {
			v, err := step(fmt.Sprint("step ", n), func(cut bool) (string, error) {
				if _, err := fmt.Fprintf(f, "begin %d %t\n", n, cut); err != nil {
					return "", err
				}
				here(fmt.Sprint("before ", n))
				if _, err := fmt.Fprintf(f, "effect %d\n", n); err != nil {
					return "", err
				}
				here(fmt.Sprint("after ", n))
				return strings.Repeat("x", n), nil
			})
			if err != nil {
				return "", err
			}
			if _, err := fmt.Fprintf(f, "got %d %s\n", n, v); err != nil {
				return "", err
			}
			here(fmt.Sprint("recorded ", n))
			sum += v + "."
		}
		return sum, nil
	})
	if err != nil {
		return err
	}
	here("ended")
	fmt.Println(result)
	return nil
}

// working is what a child prints before its first step.
const working = "working"

// want is the result of the work.
const want = "x.xx.xxx.xxxx.xxxxx."

// Run runs the suite. child returns a command, not started, that calls [Child]; ended looks at the work in a
// directory after its end.
func Run(t *testing.T, child func(t *testing.T) *exec.Cmd, ended func(t *testing.T, dir, id string) Ended) {
	s := suite{child, ended}
	for _, point := range points() {
		t.Run("killed "+point, func(t *testing.T) {
			dir := t.TempDir()
			if out, killed := s.start(t, dir, point); !killed {
				t.Fatalf("the child was not killed: %s", out)
			}
			s.finish(t, dir, true)
		})
	}
	t.Run("killed at each point in turn", func(t *testing.T) {
		dir := t.TempDir()
		for _, point := range points() {
			s.start(t, dir, point)
		}
		s.finish(t, dir, true)
	})
	t.Run("killed at random instants", s.random)
	t.Run("not killed", func(t *testing.T) { s.finish(t, t.TempDir(), true) })
}

type suite struct {
	child func(t *testing.T) *exec.Cmd
	ended func(t *testing.T, dir, id string) Ended
}

func (s suite) command(t *testing.T, dir, point string) *exec.Cmd {
	cmd := s.child(t)
	cmd.Env = append(os.Environ(), dirEnv+"="+dir, killEnv+"="+point)
	return cmd
}

// start runs a child to its end.
func (s suite) start(t *testing.T, dir, point string) (out string, killed bool) {
	t.Helper()
	b, err := s.command(t, dir, point).CombinedOutput()
	if err == nil {
		return string(b), false
	}
	var exit *exec.ExitError
	if e, ok := err.(*exec.ExitError); ok {
		exit = e
	}
	if exit == nil || !exit.Sys().(syscall.WaitStatus).Signaled() {
		t.Fatalf("the child failed: %v: %s", err, b)
	}
	return string(b), true
}

// random kills children at random instants until the work has ended, and starts anew.
func (s suite) random(t *testing.T) {
	kills := 10
	if said := os.Getenv(KillsEnv); said != "" {
		var err error
		if kills, err = strconv.Atoi(said); err != nil {
			t.Fatal(KillsEnv, ": ", err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 2))
	t.Logf("seed %d", seed)
	// How long one takes that is not killed, and so the range of the instants.
	starting, doing, _ := s.timed(t, t.TempDir(), -1, -1)
	fell := map[string]int{}
	dir := t.TempDir()
	for n := 0; n < kills; {
		after, then := time.Duration(-1), time.Duration(random.Int64N(int64(doing)))
		if n%4 == 0 { // the others fall into the work
			after = time.Duration(random.Int64N(int64(starting)))
		}
		if _, _, killed := s.timed(t, dir, after, then); !killed {
			s.finish(t, dir, false)
			dir = t.TempDir()
			continue
		}
		n++
		fell[phase(t, dir)]++
	}
	s.finish(t, dir, false)
	t.Logf("kills by phase: %v", fell)
}

// timed starts a child and kills it a time after its start, or another time after it began to work; a
// negative time is never. It returns how long both took.
func (s suite) timed(t *testing.T, dir string, after, then time.Duration) (starting, doing time.Duration, killed bool) {
	t.Helper()
	cmd := s.command(t, dir, "")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var timers []*time.Timer
	kill := func(in time.Duration) {
		if in >= 0 {
			timers = append(timers, time.AfterFunc(in, func() { _ = cmd.Process.Kill() }))
		}
	}
	kill(after)
	for in := bufio.NewScanner(out); in.Scan(); {
		if in.Text() == working {
			starting = time.Since(began)
			kill(then)
		}
	}
	err = cmd.Wait()
	doing = time.Since(began) - starting
	for _, timer := range timers {
		timer.Stop()
	}
	return starting, doing, err != nil
}

// phase is how far the work in a directory came.
func phase(t *testing.T, dir string) string {
	lines := effects(t, dir)
	if len(lines) == 0 {
		return "before the first step"
	}
	last := lines[len(lines)-1]
	return map[string]string{"begin": "in a step, before its effect", "effect": "in a step, after its effect", "got": "between steps"}[last[0]]
}

// effects reads what the children of a directory did.
func effects(t *testing.T, dir string) (lines [][]string) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, logFile))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		lines = append(lines, strings.Fields(in.Text()))
	}
	return lines
}

// finish lets the work end, and looks at all that happened. Precise means that no kill fell between the
// record of a step's begin and its first effect.
func (s suite) finish(t *testing.T, dir string, precise bool) {
	t.Helper()
	for range 2 { // the second finds that it has ended
		out, killed := s.start(t, dir, "")
		if got := lastLine(out); killed || got != want {
			t.Fatalf("the result is %q, want %q", got, want)
		}
	}
	began, got := map[string]int{}, map[string]bool{}
	for _, l := range effects(t, dir) {
		n := l[1]
		switch l[0] {
		case "begin":
			if got[n] {
				t.Errorf("step %s is done and was executed again", n)
			}
			if cut := l[2] == "true"; began[n] > 0 && !cut {
				t.Errorf("step %s was cut and is not told so", n)
			} else if began[n] == 0 && cut && precise {
				t.Errorf("step %s is told that it was cut, but it never began", n)
			}
			began[n]++
		case "got":
			got[n] = true
			if len(l) < 3 || len(l[2]) != atoi(n) {
				t.Errorf("step %s returned %v", n, l)
			}
		}
	}
	for n := 1; n <= steps; n++ {
		if !got[strconv.Itoa(n)] {
			t.Errorf("step %d has no result", n)
		}
	}
	if e := s.ended(t, dir, workID); e != (Ended{Finished: 1}) {
		t.Errorf("after the end: %+v, want it finished once and nothing left", e)
	}
}

func lastLine(out string) string {
	lines := slices.DeleteFunc(strings.Split(out, "\n"), func(l string) bool { return strings.TrimSpace(l) == "" })
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1]
}

func atoi(s string) int { n, _ := strconv.Atoi(s); return n }
