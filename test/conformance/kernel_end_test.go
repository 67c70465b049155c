package conformance

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/test/tier"
)

// TestKernelEnds ends sandboxes' own kernels from outside, in the ways that a fault of
// theirs would: the cause tells a kernel that broke from one that was killed, and
// nothing is left.
func TestKernelEnds(t *testing.T) {
	tier.AnyUser(t)
	bench := newBench(t)
	b := newGvisor(t, bench)
	for _, c := range []struct {
		name  string
		end   func(pid int) error
		cause string
	}{
		{"killed", func(pid int) error { return unix.Kill(pid, unix.SIGKILL) }, "guest exited: its kernel ended by a signal: killed"},
		{"broken", spoil, "guest exited: its kernel ended by a signal: trace/breakpoint trap"},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := api.NewSandboxID()
			m, err := b.Start(t.Context(), sandbox.Spec{ID: id, Layers: []layer.Digest{bench.tree}, Limits: api.DefaultLimits(), Hostname: "s"})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Kill(t.Context())
			if err := c.end(kernelBelow(t, bench.run, id)); errors.Is(err, os.ErrPermission) {
				t.Skipf("this user cannot do that to a kernel: %v", err)
			} else if err != nil {
				t.Fatal(err)
			}
			select {
			case <-m.Done():
			case <-time.After(patience):
				t.Fatal("its end is not seen")
			}
			if m.Cause() != c.cause {
				t.Errorf("the cause is %q; want %q", m.Cause(), c.cause)
			}
			if _, err := m.Kill(t.Context()); err != nil {
				t.Errorf("kill: %v", err)
			}
			if left := leftovers(bench.run, id); len(left) > 0 {
				t.Errorf("left over: %q", left)
			}
		})
	}
}

// kernelBelow finds the process of a sandbox's own kernel, a child of its first one.
func kernelBelow(t *testing.T, run string, id api.SandboxID) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(run, string(id), "pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, err := strconv.Atoi(strings.Fields(string(b))[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range descendantsOf(first) {
		if line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline")); err == nil && bytes.HasPrefix(line, []byte("runsc-sandbox\x00")) {
			return pid
		}
	}
	t.Fatal("there is no kernel below the first process")
	return 0
}

// spoil overwrites the code of a process, its handlers of faults included.
func spoil(pid int) error {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	maps, err := os.ReadFile(filepath.Join(proc, "maps"))
	if err != nil {
		return err
	}
	mem, err := os.OpenFile(filepath.Join(proc, "mem"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	for line := range strings.Lines(string(maps)) {
		f := strings.Fields(line) // start-end rights offset device inode name
		if len(f) < 6 || !strings.HasPrefix(f[1], "r-x") || f[4] == "0" {
			continue // not of a file: the kernel's own
		}
		first, last, _ := strings.Cut(f[0], "-")
		start, err := strconv.ParseInt(first, 16, 64)
		if err != nil {
			return err
		}
		end, err := strconv.ParseInt(last, 16, 64)
		if err != nil {
			return err
		}
		if _, err := mem.WriteAt(bytes.Repeat([]byte{0xcc}, int(end-start)), start); err != nil {
			return err
		}
	}
	return nil
}
