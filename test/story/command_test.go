package story

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// TestMegabytes passes many megabytes of random bytes through a command in a sandbox,
// from stdin to stdout.
func TestMegabytes(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	size := counter(tier.Count(20, 100)) << 20
	in, out := sha256.New(), sha256.New()
	random := io.LimitReader(rand.NewChaCha8([32]byte{1}), int64(size))
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := g.command(ctx, "sandbox", "run", "--", "cat")
	var stderr bytes.Buffer
	var n counter
	cmd.Stdin, cmd.Stdout, cmd.Stderr = io.TeeReader(random, in), io.MultiWriter(out, &n), &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	if n != size || !bytes.Equal(in.Sum(nil), out.Sum(nil)) {
		t.Errorf("%d bytes came back, of %d; checksums %x and %x", n, size, in.Sum(nil), out.Sum(nil))
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

// started is a hortus that runs, whose output can be waited for.
type started struct {
	t      testing.TB
	cmd    *exec.Cmd
	output *transcript
	done   chan struct{}
	code   int
}

// start starts hortus; stdout and stderr go to one transcript.
func (g *garden) start(args ...string) *started {
	g.t.Helper()
	return g.startAs(func(*exec.Cmd) {}, args...)
}

// startWith is start with a stdin.
func (g *garden) startWith(stdin string, args ...string) *started {
	g.t.Helper()
	return g.startAs(func(cmd *exec.Cmd) { cmd.Stdin = strings.NewReader(stdin) }, args...)
}

// startAs is start of a command that was changed.
func (g *garden) startAs(change func(*exec.Cmd), args ...string) *started {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	s := &started{t: g.t, cmd: g.command(ctx, args...), output: newTranscript(), done: make(chan struct{})}
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	change(s.cmd)
	if err := s.cmd.Start(); err != nil {
		cancel()
		g.t.Fatal(err)
	}
	go func() {
		defer close(s.done)
		defer cancel()
		err := s.cmd.Wait()
		s.code = s.cmd.ProcessState.ExitCode()
		if err != nil && s.code < 0 {
			s.code = -1 // killed by a signal
		}
	}()
	g.t.Cleanup(func() { _ = s.cmd.Process.Kill(); <-s.done })
	return s
}

// says waits until the output holds a text.
func (s *started) says(text string) {
	s.t.Helper()
	until(s.t, fmt.Sprintf("hortus %q says %q", s.cmd.Args[1:], text), func() string {
		if out := s.output.String(); !strings.Contains(out, text) {
			return "it said:\n" + out
		}
		return ""
	})
}

// ends waits for the end and gives the exit code, -1 for a death by signal.
func (s *started) ends() int {
	s.t.Helper()
	select {
	case <-s.done:
		return s.code
	case <-time.After(patience):
		s.t.Fatalf("hortus %q did not end; it said:\n%s", s.cmd.Args[1:], s.output)
		return -1
	}
}

func (s *started) signal(n syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(n); err != nil {
		s.t.Fatal(err)
	}
}

// TestSignalsReachTheCommand sends this process's signals on to what runs inside.
func TestSignalsReachTheCommand(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	for _, c := range []struct {
		signal syscall.Signal
		trap   string
		code   int
	}{
		{syscall.SIGTERM, `trap 'echo got it; exit 41' TERM`, 41},
		{syscall.SIGHUP, `trap 'echo got it; exit 42' HUP`, 42},
		{syscall.SIGUSR1, `trap 'echo got it; exit 43' USR1`, 43},
		{syscall.SIGTERM, ``, 143},
	} {
		s := g.start("sandbox", "run", "--", "sh", "-c", c.trap+"\necho ready; while :; do sleep 0.05; done")
		s.says("ready")
		s.signal(c.signal)
		if code := s.ends(); code != c.code {
			t.Errorf("%s with %q: exit code %d, want %d\n%s", c.signal, c.trap, code, c.code, s.output)
		}
		if c.trap != "" && !strings.Contains(s.output.String(), "got it") {
			t.Errorf("%s did not reach the command:\n%s", c.signal, s.output)
		}
	}
	// exec gets the interrupt itself, and the sandbox continues.
	sandbox := strings.TrimSpace(g.must("sandbox", "create"))
	s := g.start("sandbox", "exec", sandbox, "--", "sh", "-c", "trap 'exit 44' INT\necho ready; while :; do sleep 0.05; done")
	s.says("ready")
	s.signal(syscall.SIGINT)
	if code := s.ends(); code != 44 {
		t.Errorf("interrupted exec: exit code %d, want 44\n%s", code, s.output)
	}
	g.must("sandbox", "exec", sandbox, "--", "true")
}

// TestHangup wants a SIGHUP passed on once, and not at all by a hortus that was
// started with nohup.
func TestHangup(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	const count = `import os, signal, time
n = 0
def hangup(*_):
    global n
    n += 1
    print("told", flush=True)
signal.signal(signal.SIGHUP, hangup)
signal.signal(signal.SIGTERM, lambda *_: os._exit(40 + n))
print("ready", flush=True)
while True:
    time.sleep(0.05)`
	args := []string{"sandbox", "run", "--", "python3", "-c", count}
	for name, want := range map[string]int{"plain": 41, "nohup": 40} {
		s := g.startAs(func(cmd *exec.Cmd) {
			if name == "nohup" {
				cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `trap '' HUP; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
			}
		}, args...)
		s.says("ready")
		s.signal(syscall.SIGHUP)
		if name == "plain" {
			s.says("told") // two signals on their way may change places
		}
		s.signal(syscall.SIGTERM)
		if code := s.ends(); code != want {
			t.Errorf("%s: exit code %d, want %d\n%s", name, code, want, s.output)
		}
	}
}

// TestInterrupt presses Ctrl-C in every phase of a task.
func TestInterrupt(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	const forever = `{"language": "python", "files": [{"path": "main.py", "content": "import os, time\nprint('running', flush=True)\nif os.fork() == 0:\n    os.setsid()\ntime.sleep(600)\n"}],
		"run": "python3 main.py", "output": "text"%s}`
	for _, c := range []struct{ name, extra, phase string }{
		{"run", "", "run"},
		{"install", `, "install": "sleep 600"`, "install"},
	} {
		s := g.startWith(fmt.Sprintf(forever, c.extra), "role", "execute", "--timeout", "10m", "--install-timeout", "10m", "-")
		id := g.inPhase(c.phase)
		s.signal(syscall.SIGINT)
		if code := s.ends(); code != 130 {
			t.Errorf("%s: exit code %d, want 130\n%s", c.name, code, s.output)
		}
		for _, want := range []string{"cancelled", "not done: run", "0 processes left"} {
			if !strings.Contains(s.output.String(), want) {
				t.Errorf("%s: no %q in\n%s", c.name, want, s.output)
			}
		}
		task := decode[api.Task](t, g.must("task", "show", "--json", string(id)))
		if task.Outcome != api.OutcomeCanceled || task.Receipt == nil || task.Receipt.ProcessesLeft != 0 {
			t.Errorf("%s: the record says %s, %+v", c.name, task.Outcome, task.Receipt)
		}
		if sandboxes := decode[[]api.Sandbox](t, g.must("sandbox", "ls", "--json")); len(sandboxes) != 0 {
			t.Errorf("%s: sandboxes are alive: %+v", c.name, sandboxes)
		}
	}

	// As early as it gets: the daemon may not even have been asked yet. Before the
	// signals are caught an interrupt is a plain death.
	for _, after := range []string{"", "planner", "coder"} {
		s := g.start("run", "Run this Python: import time; time.sleep(600)")
		s.says(after)
		s.signal(syscall.SIGINT)
		if code := s.ends(); code != 130 && (after != "" || code != -1) {
			t.Errorf("interrupted after %q: exit code %d, want 130\n%s", after, code, s.output)
		}
	}
	g.idle()

	// Twice ends the command at once; the daemon still ends what it held.
	s := g.startWith(fmt.Sprintf(forever, ""), "role", "execute", "--timeout", "10m", "-")
	g.inPhase("run")
	pid := daemonOf(g.dir)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil { // so that the first cannot be over before the second
		t.Fatal(err)
	}
	s.signal(syscall.SIGINT)
	s.says("press Ctrl-C again to end this command immediately")
	s.signal(syscall.SIGINT)
	code := s.ends()
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if code != 130 {
		t.Errorf("two interrupts: exit code %d, want 130\n%s", code, s.output)
	}
	g.idle()
}

// idle waits until the daemon has nothing.
func (g *garden) idle() {
	g.t.Helper()
	until(g.t, "the daemon has nothing", func() string {
		info, err := g.client().Info(context.Background())
		if err != nil {
			return err.Error()
		}
		if info.Sandboxes+info.Tasks > 0 {
			return fmt.Sprintf("%d sandboxes, %d tasks", info.Sandboxes, info.Tasks)
		}
		return ""
	})
}

// inPhase waits until the newest task is in a phase and gives its id.
func (g *garden) inPhase(phase string) (id api.TaskID) {
	g.t.Helper()
	until(g.t, "a task is in phase "+phase, func() string {
		tasks, err := g.client().Tasks.List(context.Background(), 1)
		if err != nil || len(tasks) == 0 || tasks[0].State == api.TaskDone {
			return fmt.Sprint("no task yet: ", err)
		}
		id = tasks[0].ID
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		for e, err := range g.client().Tasks.Events(ctx, id, 0) {
			if err != nil {
				return err.Error()
			}
			if e.Type == api.EventPhase && strings.Contains(string(e.Data), `"phase":"`+phase+`"`) {
				return ""
			}
		}
		return "it ended"
	})
	return id
}

// TestTwoRunsOneKilled kills one of two commands that share a daemon.
func TestTwoRunsOneKilled(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	const slow = "Run this Python: import time; time.sleep(1.5); print('unharmed')"
	a, b := g.start("run", slow), g.start("run", slow)
	a.says("[coder]")
	b.says("[coder]")
	a.signal(syscall.SIGKILL)
	if code := b.ends(); code != 0 || !strings.Contains(b.output.String(), "unharmed") {
		t.Errorf("the other ended with %d\n%s", code, b.output)
	}
	// The task of the one that was killed is the daemon's: it ends as asked.
	g.idle()
	for _, task := range decode[[]api.Task](t, g.must("task", "ls", "--json")) {
		if task.Outcome != api.OutcomeVerified {
			t.Errorf("task %s: %s", task.ID, task.Outcome)
		}
	}
}

// TestKilledCommandTakesItsSandboxAlong kills `sandbox run` while its command runs,
// and at moments when the sandbox is only being made.
func TestKilledCommandTakesItsSandboxAlong(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	command := []string{"sandbox", "run", "--", "sh", "-c", "trap '' TERM HUP; echo ready; setsid sleep 600 & wait"}
	s := g.start(command...)
	s.says("ready")
	s.signal(syscall.SIGKILL)
	s.ends()
	g.idle()
	for range 15 {
		s := g.start(command...)
		instant := time.NewTimer(time.Duration(rand.Int64N(int64(60 * time.Millisecond))))
		<-instant.C
		s.signal(syscall.SIGKILL)
		s.ends()
	}
	// A request that was on its way is still served; then its sandbox has seconds.
	until(t, "every sandbox has ended", func() string {
		for _, sandbox := range decode[[]api.Sandbox](t, g.must("sandbox", "ls", "--all", "--json")) {
			if sandbox.State != api.SandboxEnded {
				return fmt.Sprintf("sandbox %s is %s", sandbox.ID, sandbox.State)
			}
		}
		return ""
	})
	g.idle()
}

// TestInterruptedSandboxRun presses Ctrl-C: the sandbox is killed, whatever its
// command thinks of signals.
func TestInterruptedSandboxRun(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	s := g.start("sandbox", "run", "--", "sh", "-c", "trap '' INT TERM; echo ready; setsid sleep 600 & wait")
	s.says("ready")
	s.signal(syscall.SIGINT)
	if code := s.ends(); code != 130 {
		t.Errorf("exit code %d, want 130\n%s", code, s.output)
	}
	g.idle()
}

// TestCancelFromAnotherTerminal stops a task that another command follows.
func TestCancelFromAnotherTerminal(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	s := g.start("run", "Run this Python: import time; time.sleep(600)")
	id := g.inPhase("run")
	r := g.run("task", "cancel", string(id))
	if r.code != 0 || !strings.Contains(r.stderr, "0 processes left") || !strings.Contains(r.stderr, "done: plan, code") {
		t.Errorf("task cancel: %s", r)
	}
	if code := s.ends(); code != 130 || !strings.Contains(s.output.String(), "cancelled") {
		t.Errorf("the other terminal: exit code %d\n%s", code, s.output)
	}
}
