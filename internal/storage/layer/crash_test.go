package layer

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/patience"
)

// The variables of a process that is killed at a point of its work.
const (
	crashDir   = "HORTUS_TEST_CRASH_DIR"
	crashPoint = "HORTUS_TEST_CRASH_POINT"
)

// TestCrashed is the process that TestCrash kills.
func TestCrashed(t *testing.T) {
	if os.Getenv(crashDir) == "" {
		t.Skip("it runs in TestCrash only")
	}
	s, err := New(Config{Dir: os.Getenv(crashDir), PackEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	s.at = func(point string) {
		if point == os.Getenv(crashPoint) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	_, err = s.Put(t.Context(), digestA, func(ctx context.Context, dir string) (Tree, error) {
		tree, err := plain("whole")(ctx, dir)
		s.pass("half built")
		return tree, err
	})
	if err == nil {
		err = s.Remove(digestA)
	}
	t.Fatalf("nothing killed it: %v", err)
}

// TestCrash kills a process at each point of making and removing a layer. Then the layer is
// whole or not there, nothing is left of it, no lease is stuck, and it can be made.
func TestCrash(t *testing.T) {
	whole := map[string]bool{"renamed": true}
	for _, point := range []string{"half built", "built", "written", "packed", "recorded", "flushed", "renamed", "set aside"} {
		t.Run(strings.ReplaceAll(point, " ", "-"), func(t *testing.T) {
			t.Parallel()
			if point == "written" {
				packing(t, Config{}) // or it skips: nothing is packed here
			}
			dir := t.TempDir()
			ctx, cancel := context.WithTimeout(t.Context(), patience.Of(time.Minute))
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestCrashed$")
			cmd.Env = append(os.Environ(), crashDir+"="+dir, crashPoint+"="+point)
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL || ctx.Err() != nil {
				t.Fatalf("it was not killed there: %v\n%s", err, out)
			}
			s, err := New(Config{Dir: dir, PackEntries: 1, VerifyWait: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			tree, err := s.Resolve(digestA)
			if whole[point] != (err == nil) || err != nil && api.KindOf(err) != api.KindNotFound {
				t.Fatalf("found: %v", err)
			}
			if err == nil && read(t, tree) != "whole" {
				t.Errorf("it has %q", read(t, tree))
			}
			s.work.Wait() // leftovers are removed in the background
			left, err := os.ReadDir(dir)
			if err != nil || len(left) > 1 || len(left) == 1 && !whole[point] {
				t.Errorf("left: %v, %v", left, err)
			}
			if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), dir) {
				t.Errorf("a mount is left: %v", err)
			}
			tree, err = s.Put(t.Context(), digestA, plain("whole"))
			if err != nil || read(t, tree) != "whole" {
				t.Fatalf("made again: %v", err)
			}
			// Another test may be forking a process, which has this one's descriptors until it executes.
			for err = s.Remove(digestA); api.KindOf(err) == api.KindConflict && ctx.Err() == nil; err = s.Remove(digestA) {
			}
			if err != nil {
				t.Errorf("removed: %v", err)
			}
		})
	}
}
