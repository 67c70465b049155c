package manager_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
)

const (
	dieDir   = "HORTUS_TEST_PAUSE_DIR"
	dieWrite = "HORTUS_TEST_PAUSE_WRITE"
)

// dyingRows end the process (SIGKILL) before the nth row is written.
type dyingRows struct {
	allRows
	n atomic.Int64
}

func (d *dyingRows) write() {
	if d.n.Add(-1) == 0 {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func (d *dyingRows) InsertSandbox(ctx context.Context, s api.Sandbox) error {
	d.write()
	return d.allRows.InsertSandbox(ctx, s)
}

func (d *dyingRows) UpdateSandbox(ctx context.Context, s api.Sandbox) error {
	d.write()
	return d.allRows.UpdateSandbox(ctx, s)
}

func (d *dyingRows) InsertSnapshot(ctx context.Context, s api.Snapshot) error {
	d.write()
	return d.allRows.InsertSnapshot(ctx, s)
}

func (d *dyingRows) UpdateSnapshot(ctx context.Context, s api.Snapshot) error {
	d.write()
	return d.allRows.UpdateSnapshot(ctx, s)
}

// TestDiePausing is the child of the tests below: it pauses and resumes a sandbox,
// and says how far it got. It dies on its way, or is killed.
func TestDiePausing(t *testing.T) {
	dir := os.Getenv(dieDir)
	if dir == "" {
		t.Skip("it is run by TestKillAtEachRow and TestKillAnywhere")
	}
	die := &dyingRows{}
	n, err := strconv.ParseInt(os.Getenv(dieWrite), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	die.n.Store(n)
	w := openSaving(t, dir, savingOptions{rows: func(r allRows) allRows { die.allRows = r; return die }})
	s := w.create(t, api.CreateSandbox{TTLMS: time.Hour.Milliseconds()})
	for i := 0; i < 2 || n == 0; i++ {
		if _, _, err := w.run(t, s.ID, fmt.Sprintf("echo %d > f", i), nil); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("wrote %d\n", i)
		if _, err := w.Pauser.PauseToDisk(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("paused %d\n", i)
		if _, err := w.Sandboxes.Resume(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("resumed %d\n", i)
	}
	fmt.Println("whole")
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// die runs the child until it dies, or for as long as goOn says of each line.
func die(t *testing.T, dir string, write int, goOn func(line string) bool) (lines []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDiePausing$", "-test.v")
	cmd.Env = append(os.Environ(), dieDir+"="+dir, dieWrite+"="+strconv.Itoa(write))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for r := bufio.NewScanner(out); r.Scan(); {
		lines = append(lines, r.Text())
		if !goOn(r.Text()) {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd.Wait()
	if st, _ := cmd.ProcessState.Sys().(syscall.WaitStatus); st.Signal() != syscall.SIGKILL {
		t.Fatalf("the child was not killed: %s", strings.Join(lines, "\n"))
	}
	return lines
}

// settled opens the next daemon and checks what it finds: each sandbox has ended
// with a reason, or is paused in a whole snapshot from which it continues; nothing
// else is left, on disk or running.
func settled(t *testing.T, dir string, lines []string) (paused bool) {
	t.Helper()
	said := strings.Join(lines, "; ")
	w := openSaving(t, dir, savingOptions{})
	w.recover(t)
	all, err := w.Sandboxes.List(t.Context(), true)
	if err != nil || len(all) > 1 {
		t.Fatalf("%d sandboxes, %v", len(all), err)
	}
	want := 0
	for _, row := range all {
		switch row.State {
		case api.SandboxPaused:
			paused, want = true, 1
		case api.SandboxLost, api.SandboxEnded:
			if row.Reason == "" {
				t.Errorf("%s without a reason", row.State)
			}
		default:
			t.Errorf("a sandbox of the dead is %s: %s", row.State, said)
		}
		// Its processes went with the daemon's end, or were ended by the next.
		if proof, err := w.backend.Reclaim(t.Context(), row.ID); err != nil || proof.Killed != 0 {
			t.Errorf("left running: %+v, %v", proof, err)
		}
	}
	if left := w.onDisk(t); len(left) != want {
		t.Errorf("on disk %v, want %d: %s", left, want, said)
	}
	snaps, err := w.Manager.Saver.Snapshots(t.Context(), false)
	if err != nil || len(snaps) != want {
		t.Errorf("snapshots %+v, %v, want %d: %s", snaps, err, want, said)
	}
	if !paused {
		return false
	}
	if _, err := w.Sandboxes.Resume(t.Context(), all[0].ID); err != nil {
		t.Fatalf("a paused sandbox does not go on: %v: %s", err, said)
	}
	// What had been said to be written before the pause is there.
	last := -1
	for _, l := range lines {
		fmt.Sscanf(l, "wrote %d", &last)
	}
	out, _, err := w.run(t, all[0].ID, "cat f", nil)
	if got, cerr := strconv.Atoi(strings.TrimSpace(out)); err != nil || cerr != nil || got != last {
		t.Errorf("it holds %q, %v; want %d: %s", out, err, last, said)
	}
	return true
}

// TestKillAtEachRow kills a daemon before each row that it writes while a sandbox
// is paused to disk and resumed, twice.
func TestKillAtEachRow(t *testing.T) {
	t.Parallel()
	points := map[bool]int{}
	for write := 2; ; write++ { // before the first there is nothing
		whole := false
		t.Run(strconv.Itoa(write), func(t *testing.T) {
			dir := t.TempDir()
			lines := die(t, dir, write, func(string) bool { return true })
			whole = strings.Contains(strings.Join(lines, "\n"), "whole")
			points[settled(t, dir, lines)]++
		})
		if whole || t.Failed() || write > 100 {
			break
		}
	}
	if points[true] == 0 || points[false] == 0 {
		t.Errorf("paused %d times and ended %d times: this test sees one side alone", points[true], points[false])
	}
}

// TestKillAnywhere kills a daemon at instants that nobody chose.
func TestKillAnywhere(t *testing.T) {
	t.Parallel()
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	for i := range rounds {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			dir := t.TempDir()
			after := 1 + rand.IntN(12)
			lines := die(t, dir, 0, func(line string) bool {
				if strings.Contains(line, "wrote") || strings.Contains(line, "paused") || strings.Contains(line, "resumed") {
					after--
				}
				if after == 0 {
					// Somewhere in what follows.
					time.Sleep(time.Duration(rand.IntN(8000)) * time.Microsecond)
				}
				return after > 0
			})
			settled(t, dir, lines)
		})
	}
}
