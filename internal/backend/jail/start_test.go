package jail_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/patience"
)

func TestStartRunKill(t *testing.T) {
	e := newEnv(t)
	m, _ := e.start(t)
	if got := sh(t, m, "user", "id -u; pwd; echo hello > f; cat f"); got != "1000\n/workspace\nhello" {
		t.Errorf("got %q", got)
	}
	if isRoot() {
		if got := sh(t, m, "root", "id -u; echo '#' >> /etc/passwd && tail -1 /etc/passwd; stat -c %u /etc/passwd"); got != "0\n#\n0" {
			t.Errorf("got %q", got)
		}
	}
	p := kill(t, m)
	if p.Killed < 1 || !strings.Contains(p.How, "pid namespace") {
		t.Errorf("proof %+v", p)
	}
}

// TestKilledOnTheWay ends guests while they come to life: the error says how they
// ended, and nothing is left.
func TestKilledOnTheWay(t *testing.T) {
	e := newEnv(t)
	for try := 1; try <= 50; try++ {
		ctx, cancel := context.WithTimeout(t.Context(), patience.Of(20*time.Second))
		id := api.NewSandboxID()
		started := make(chan error, 1)
		go func() {
			m, err := e.Start(ctx, sandbox.Spec{ID: id, Layers: specLayers(), Limits: limits(), Hostname: "garden"})
			if err == nil {
				kill(t, m)
			}
			started <- err
		}()
		killed := false
		for !killed && len(started) == 0 {
			if b, err := os.ReadFile(filepath.Join(e.dir, string(id), "pid")); err == nil {
				if first, _, _ := strings.Cut(string(b), " "); first != "" {
					pid, err := strconv.Atoi(first)
					if err != nil {
						t.Fatalf("the pid file is %q", b)
					}
					killed = syscall.Kill(pid, syscall.SIGKILL) == nil
				}
			}
		}
		err := <-started
		cancel()
		if err == nil {
			continue // it was there already
		}
		if !strings.Contains(err.Error(), "signal: killed") || api.KindOf(err) != api.KindInternal {
			t.Errorf("the error is %v", err)
		}
		if left, err := os.ReadDir(e.dir); err != nil || len(left) > 0 {
			t.Errorf("what is left is %v, %v", left, err)
		}
		return
	}
	t.Error("in 50 tries none was killed before it was there")
}
