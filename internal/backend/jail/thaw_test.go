package jail

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/image"
	"hortus.dev/internal/backend/jail/keeper"
	"hortus.dev/internal/backend/jail/launch"
	"hortus.dev/internal/backend/jail/rundir"
	"hortus.dev/internal/platform/proc"
	"hortus.dev/internal/storage/layer"
)

// namesOnly is a kernel of which only the names of calls are needed.
type namesOnly struct{ launch.Kernel }

func (namesOnly) Thaw(name string) keeper.Call { return keeper.Call{Method: name} }

// holding is a backend with a sandbox, which is a process that does nothing, that holds memory under
// two names; its answers are those of fail, by number of the call.
func holding(t *testing.T, fail func(call int) error) (b *Backend, id api.SandboxID, calls func() []string, end func()) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	layers, err := layer.Open(filepath.Join(dir, "layers"))
	must(err)
	t.Cleanup(layers.Close)
	b, err = New(Config{Name: "container", Dir: filepath.Join(dir, "run"), Layers: layers})
	must(err)
	b.cfg.Kernel = namesOnly{}
	id = api.NewSandboxID()
	cmd := exec.Command("sleep", "1000")
	must(cmd.Start())
	end = sync.OnceFunc(func() { cmd.Process.Kill(); cmd.Wait() })
	t.Cleanup(end)
	p, err := proc.Identify(cmd.Process.Pid)
	must(err)
	must(os.Mkdir(b.rundir(id), 0o700))
	must(rundir.WritePID(b.rundir(id), p))
	for _, name := range []string{"0123456789abcdef", "1123456789abcdef"} {
		must(image.NoteFrozen(b.basesDir(id), name))
	}
	var mu sync.Mutex
	var made []string
	b.thaws.tell = func(_ context.Context, m image.Memory, c keeper.Call) error {
		mu.Lock()
		defer mu.Unlock()
		if m.ID != id || m.PID != cmd.Process.Pid {
			t.Errorf("%s, process %d is asked", m.ID, m.PID)
		}
		made = append(made, c.Method)
		return fail(len(made))
	}
	return b, id, func() []string { mu.Lock(); defer mu.Unlock(); return made }, end
}

var errBusy = errors.New("its keeper is busy")

// TestThawIsRetried: what a sandbox did not release is asked for again, without a pause or a new
// daemon, until it is released, and then no more.
func TestThawIsRetried(t *testing.T) {
	done := make(chan struct{})
	b, id, calls, _ := holding(t, func(call int) error {
		if call <= 5 { // both names twice, and one a third time
			return errBusy
		}
		if call == 7 {
			close(done)
		}
		return nil
	})
	b.thawOwn(t.Context(), id)
	<-done
	// Close stops tries to come, and waits for the one that runs.
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if names, err := image.Frozen(b.basesDir(id)); err != nil || len(names) != 0 || len(calls()) != 7 {
		t.Errorf("%v is held after %d calls, %v", names, len(calls()), err)
	}
}

// TestThawEnds: nobody is asked after Close, or after the sandbox has ended; the note stays for the
// next daemon.
func TestThawEnds(t *testing.T) {
	for name, last := range map[string]func(b *Backend, end func()){
		"closed": func(b *Backend, end func()) {},
		"ended":  func(b *Backend, end func()) { end() },
	} {
		t.Run(name, func(t *testing.T) {
			b, id, calls, end := holding(t, func(int) error { return errBusy })
			b.thawOwn(t.Context(), id)
			last(b, end)
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			n := len(calls())
			b.thawOwn(t.Context(), id)
			if name == "closed" {
				n += 2 // it is asked, and not again
			}
			b.machines.Wait()
			if names, err := image.Frozen(b.basesDir(id)); err != nil || len(names) != 2 || len(calls()) != n {
				t.Errorf("%v, %d calls, want %d, %v", names, len(calls()), n, err)
			}
		})
	}
}
