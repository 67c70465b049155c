//go:build linux

package gvisorbuild

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/patience"
	testtools "hortus.dev/test/tools"
)

// TestBuild builds gVisor and the guest from this source tree.
func TestBuild(t *testing.T) {
	testtools.Dir(t) // this machine can build it
	source, err := Source()
	if err != nil {
		t.Fatal(err)
	}
	b := New(Config{Source: source, Dir: filepath.Join(t.TempDir(), "bin")})
	if st := b.State(); st.Phase != Missing {
		t.Errorf("before: %+v", st)
	}
	if err := b.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := b.State(); st.Phase != Built {
		t.Errorf("after: %+v", st)
	}
	first, err := os.Stat(Path(b.cfg.Dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := New(Config{Source: source, Dir: b.cfg.Dir, Go: "/nonexistent"}).Build(t.Context()); err != nil {
		t.Errorf("what is built is built again: %v", err)
	}
	again, err := os.Stat(Path(b.cfg.Dir))
	if err != nil || !os.SameFile(first, again) {
		t.Errorf("another file: %v", err)
	}
	// Another source, or a guest of another build of hortus, is built anew.
	if err := os.Rename(GuestPath(b.cfg.Dir), GuestPath(b.cfg.Dir)+"0"); err != nil {
		t.Fatal(err)
	}
	if st := b.State(); st.Phase != Missing {
		t.Errorf("without the guest: %+v", st)
	}
}

// script makes a go command of lines of shell. In it, $OUT is the file to write.
func script(t *testing.T, lines string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "go")
	text := "#!/bin/sh\nprev=; for a; do if [ \"$prev\" = -o ]; then OUT=$a; fi; prev=$a; done\n[ -n \"$OUT\" ] || exit 0 # go run ./patch\n" + lines + "\n"
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func builder(t *testing.T, goCommand string) *Builder {
	t.Helper()
	source, err := Source()
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{Source: source, Dir: t.TempDir(), Go: goCommand})
}

// TestFailures: a failed build says why, is remembered, and leaves nothing that a daemon
// would use.
func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		lines string
		kind  api.Kind
		says  string
	}{
		"compiler":      {"echo first; echo 'no space left on device' >&2; exit 1", api.KindUnavailable, "no space left on device (exit status 1)"},
		"other program": {"cp /proc/self/exe \"$OUT\"", api.KindUnavailable, "not the version in"},
		"no program":    {"", api.KindInternal, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			b := builder(t, script(t, c.lines))
			err := b.Build(t.Context())
			if api.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", api.KindOf(err), err)
			}
			if st := b.State(); st.Phase != Failed || !strings.Contains(st.Reason, c.says) {
				t.Errorf("state: %+v", st)
			}
			left, err := filepath.Glob(filepath.Join(b.cfg.Dir, "*hortus-*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range left {
				switch filepath.Base(path) {
				case failedName, logName, lockName:
				default:
					t.Errorf("left behind: %s", path)
				}
			}
			// Anyone who asks for it tries again.
			b.cfg.Go = "/nonexistent/go"
			if err := b.Build(t.Context()); api.KindOf(err) != api.KindUnsupported || api.HintOf(err) == "" {
				t.Errorf("without a go command: %v", err)
			}
		})
	}
}

// TestStop: a build that is stopped ends its compilers, and another process that waits
// for the build continues.
func TestStop(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	// What a killed builder has left is removed.
	b := builder(t, script(t, fmt.Sprintf("ls %q/.. >/dev/null; sleep 1000 & echo $! >%[1]q.new; mv %[1]q.new %[1]q; wait", pid)))
	stale := filepath.Join(b.cfg.Dir, unfinished+"123")
	if err := os.MkdirAll(stale, 0o700); err != nil {
		t.Fatal(err)
	}
	before := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Build(ctx) }()
	until(t, "the compiler runs", func() bool { _, err := os.Stat(pid); return err == nil })
	if st := b.State(); st.Phase != Building || st.Since.Before(before) {
		t.Errorf("while it is built: %+v", st)
	}
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("what a killed build left: %v", err)
	}
	second, stop := context.WithCancel(t.Context())
	waits := make(chan error, 1)
	go func() { waits <- New(b.cfg).Build(second) }()
	stop()
	if err := <-waits; api.KindOf(err) != api.KindCanceled {
		t.Errorf("who waits: %v", err)
	}
	cancel()
	if err := <-ended; api.KindOf(err) != api.KindCanceled {
		t.Errorf("stopped: %v", err)
	}
	text, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the compiler ended", func() bool { return !runs(child) })
	if st := b.State(); st.Phase != Missing {
		t.Errorf("after a stop: %+v", st)
	}
}

// runs reports whether a process is neither gone nor a zombie.
func runs(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(after, "Z")
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience.Of(10 * time.Second)); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// TestStrangersSource: a source tree that somebody else can change is not built.
func TestStrangersSource(t *testing.T) {
	tree := func(t *testing.T) string {
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Join(root, module), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"go.mod": "module hortus.dev\n", module + "/go.mod": "module hortus.dev/" + module + "\n"} {
			if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return root
	}
	for _, c := range []struct {
		name, says string
		prepare    func(t *testing.T, root string) error
	}{
		{"own", "", func(*testing.T, string) error { return nil }}, // the control
		{"anybody writes", "anybody may write", func(_ *testing.T, root string) error { return os.Chmod(filepath.Join(root, module, "go.mod"), 0o666) }},
		{"another's", "another user", func(t *testing.T, root string) error {
			if os.Geteuid() != 0 {
				t.Skip("only root can give a file away")
			}
			return os.Chown(filepath.Join(root, "go.mod"), 4321, -1)
		}},
		{"another module", "another module", func(_ *testing.T, root string) error {
			return os.WriteFile(filepath.Join(root, "go.mod"), []byte("module other.dev\n"), 0o644)
		}},
		{"gone", "no such file", func(_ *testing.T, root string) error { return os.RemoveAll(root) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := tree(t)
			if err := c.prepare(t, root); err != nil {
				t.Fatal(err)
			}
			err := New(Config{Source: root, Dir: t.TempDir(), Go: script(t, "exit 7")}).Build(t.Context())
			if c.says == "" {
				if err == nil || !strings.Contains(err.Error(), "exit status 7") {
					t.Errorf("an own tree: %v", err)
				}
				return
			}
			if api.KindOf(err) != api.KindUnsupported || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestLockFileIsNoLink: a link in the place of the lock leads nowhere.
func TestLockFileIsNoLink(t *testing.T) {
	b := builder(t, "go")
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.Symlink(victim, b.in(lockName)); err != nil {
		t.Fatal(err)
	}
	if err := b.Build(t.Context()); err == nil {
		t.Error("the build followed a link")
	}
	if err := syscall.Access(victim, 0); err == nil {
		t.Error("the link's target was made")
	}
}
