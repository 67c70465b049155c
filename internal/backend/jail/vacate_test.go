package jail_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/patience"
)

// TestGroupThatIsBusy: a group that a dying process keeps busy for longer than a start
// that is given up waits for it is removed when that process is gone.
func TestGroupThatIsBusy(t *testing.T) {
	if !isRoot() {
		t.Skip("moving a process into a sandbox's group needs root")
	}
	e := newEnv(t)
	h := fnv.New64a()
	h.Write([]byte(e.dir))
	name := fmt.Sprintf("hortus-%d-%016x", os.Geteuid(), h.Sum64())
	var parents []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == name {
			parents = append(parents, path)
		}
		return nil // other groups come and go
	})
	if len(parents) == 0 {
		t.Skip("this host has no control groups that can be written")
	}
	stray := exec.Command("sleep", "600")
	if err := stray.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = stray.Process.Kill() // also after a failure
		_ = stray.Wait()
	}()
	there := func(id api.SandboxID) (n int) {
		for _, p := range parents {
			if _, err := os.Stat(filepath.Join(p, string(id))); err == nil {
				n++
			}
		}
		return n
	}
	// A start may be quicker than the process that is to be in its way.
	for range 50 {
		id := api.NewSandboxID()
		ctx, cancel := context.WithTimeout(t.Context(), patience.Of(20*time.Second))
		moved := make(chan error, 1)
		go func() {
			defer cancel()
			for there(id) < len(parents) && ctx.Err() == nil {
				time.Sleep(100 * time.Microsecond)
			}
			for _, p := range parents {
				if err := os.WriteFile(filepath.Join(p, string(id), "cgroup.procs"), []byte(strconv.Itoa(stray.Process.Pid)), 0); err != nil {
					moved <- err
					return
				}
			}
			moved <- nil
		}()
		m, err := e.Start(ctx, sandbox.Spec{ID: id, Layers: specLayers(), Limits: limits(), Hostname: "garden"})
		cancel()
		if merr := <-moved; err == nil || merr != nil {
			t.Logf("once more: %v, %v", err, merr)
			if err == nil {
				_, _ = m.Kill(context.WithoutCancel(t.Context())) // a group that is busy may be in its way too
			}
			continue
		}
		if there(id) == 0 {
			t.Fatal("nothing kept the group busy")
		}
		if err := stray.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = stray.Wait() // it was killed
		for until := time.Now().Add(patience.Of(20 * time.Second)); there(id) > 0; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("%d directories of the group are left", there(id))
			}
		}
		return
	}
	t.Error("no start was given up in time")
}
