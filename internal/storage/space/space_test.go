package space

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

func TestFloor(t *testing.T) {
	const gib = 1 << 30
	disk := func(total, free, files, ffree uint64) *unix.Statfs_t {
		return &unix.Statfs_t{Bsize: 4096, Blocks: total / 4096, Bfree: free / 4096, Bavail: free / 4096, Files: files, Ffree: ffree}
	}
	for name, test := range map[string]struct {
		floor int64
		st    *unix.Statfs_t
		need  int64
		short bool
	}{
		"a large disk":          {0, disk(100*gib, 2*gib, 1e6, 5e5), 0, false},
		"a large disk, nearly":  {0, disk(100*gib, gib-4096, 1e6, 5e5), 0, true},
		"a small disk":          {0, disk(gib, gib/10, 1e6, 5e5), 0, false},
		"a small disk, nearly":  {0, disk(gib, gib/25, 1e6, 5e5), 0, true},
		"inodes":                {0, disk(100*gib, 50*gib, 1e6, 9_999), 0, true},
		"few inodes":            {0, disk(100*gib, 50*gib, 1e5, 999), 0, true},
		"no inodes are counted": {0, disk(100*gib, 50*gib, 0, 0), 0, false},
		"as configured":         {3 * gib, disk(100*gib, 2*gib, 1e6, 5e5), 0, true},
		"a need":                {0, disk(100*gib, 2*gib, 1e6, 5e5), gib / 2, false},
		"too large a need":      {0, disk(100*gib, 2*gib, 1e6, 5e5), gib + 1, true},
		"a negative need":       {0, disk(100*gib, 2*gib, 1e6, 5e5), -1, false},
	} {
		if why := New(Config{FloorBytes: test.floor}).ShortOf(test.st, test.need); (why != "") != test.short {
			t.Errorf("%s: %q", name, why)
		}
	}
	if why := New(Config{Dir: "/no/such/place"}).Short(0); why == "" {
		t.Error("a disk that cannot be looked at is not short")
	}
}

// TestGuard: a long write ends when the floor is reached, with an error that says what to do; other errors and ends stay
// what they are.
func TestGuard(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("a file system of 8 MiB cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	s := New(Config{Dir: dir, FloorBytes: 2 << 20})
	fill := func(name string, bytes int) {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, bytes), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	own := errors.New("its own")
	if err := s.Guard(t.Context(), "x", func(context.Context) error { return own }); err != own {
		t.Errorf("an error of the write: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Guard(ended, "x", func(ctx context.Context) error { return ctx.Err() }); err != context.Canceled {
		t.Errorf("an end of the caller: %v", err)
	}
	err := s.Guard(t.Context(), "layer 1", func(ctx context.Context) error {
		fill("a", 7<<20)
		<-ctx.Done()
		return ctx.Err()
	})
	refused := s.Check("layer 2", 0)
	for _, err := range []error{err, refused} {
		if api.KindOf(err) != api.KindExhausted || !strings.Contains(err.Error(), "layer") || !strings.Contains(api.HintOf(err), "hortus gc") {
			t.Errorf("a full disk: %v (%s)", err, api.HintOf(err))
		}
	}
	if err := s.Guard(t.Context(), "x", func(context.Context) error { t.Error("began below the floor"); return nil }); api.KindOf(err) != api.KindExhausted {
		t.Errorf("began below the floor: %v", err)
	}
	var none *Space
	if err := errors.Join(none.Check("x", 1<<60), none.Guard(t.Context(), "x", func(context.Context) error { return nil })); err != nil {
		t.Errorf("without a floor: %v", err)
	}
}
