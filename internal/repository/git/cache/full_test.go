package cache

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/storage/space"
	"hortus.dev/test/gittest"
)

// TestDiskFull fetches a repository that does not fit, first and as an update: the error names the
// disk, what was there stays readable, and with more space the same fetch succeeds.
func TestDiskFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	disk := t.TempDir()
	if err := unix.Mount("none", disk, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("this process cannot mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	resize := func(size string) {
		t.Helper()
		if err := unix.Mount("none", disk, "tmpfs", unix.MS_REMOUNT, "size="+size); err != nil {
			t.Fatal(err)
		}
	}
	noise := func(n int) string {
		b := make([]byte, n)
		rand.Read(b)
		return string(b)
	}
	ctx := gittest.Context(t)
	c, err := Open(Config{Dir: filepath.Join(disk, "repositories")})
	if err != nil {
		t.Fatal(err)
	}
	named := func(what string, err error) {
		t.Helper()
		if api.KindOf(err) != api.KindExhausted || !strings.Contains(err.Error(), "no space left on the disk of "+disk) || api.HintOf(err) == "" {
			t.Errorf("%s: %v (%s) does not name the disk %s", what, err, api.KindOf(err), disk)
		}
	}
	src := gittest.NewCheckout(t, map[string]string{"large": noise(12 << 20)})
	_, err = c.Fetch(ctx, git.Source{URL: src}, nil)
	named("a first fetch", err)
	resize("40m")
	if _, err := c.Fetch(ctx, git.Source{URL: src}, nil); err != nil {
		t.Errorf("with more space: %v", err)
	}

	small := gittest.NewCheckout(t, map[string]string{"a": "1"})
	r, err := c.Fetch(ctx, git.Source{URL: small}, nil)
	if err != nil {
		t.Fatal(err)
	}
	head := strings.TrimSpace(gittest.Git(t, small, "rev-parse", "HEAD"))
	gittest.WriteFiles(t, small, map[string]string{"large": noise(30 << 20)})
	gittest.Git(t, small, "add", "-A")
	gittest.Git(t, small, "commit", "-qm", "second")
	_, err = c.Fetch(ctx, git.Source{URL: small}, nil)
	named("an update", err)
	if b, err := r.ReadFile(ctx, head, "a", 10); err != nil || string(b) != "1" {
		t.Errorf("the commit that was there: %q, %v", b, err)
	}
	resize("256m")
	if _, err := c.Fetch(ctx, git.Source{URL: small}, nil); err != nil {
		t.Errorf("with more space: %v", err)
	}
}

// TestFloor: below the floor of the disk nothing is fetched, and what was fetched stays readable.
func TestFloor(t *testing.T) {
	ctx := gittest.Context(t)
	src := gittest.NewCheckout(t, map[string]string{"a": "1"})
	c := newCache(t)
	r, err := c.Fetch(ctx, git.Source{URL: src}, nil)
	if err != nil {
		t.Fatal(err)
	}
	head := strings.TrimSpace(gittest.Git(t, src, "rev-parse", "HEAD"))
	c.cfg.Space = space.New(space.Config{Dir: c.cfg.Dir, FloorBytes: 1 << 62})
	if _, err := c.Fetch(ctx, git.Source{URL: src}, nil); err != nil {
		t.Errorf("nothing new: %v", err)
	}
	gittest.WriteFiles(t, src, map[string]string{"a": "2"})
	gittest.Git(t, src, "commit", "-qam", "second")
	for _, url := range []string{src, gittest.NewCheckout(t, map[string]string{"b": "1"})} {
		if _, err := c.Fetch(ctx, git.Source{URL: url}, nil); api.KindOf(err) != api.KindExhausted || !strings.Contains(err.Error(), "must stay free") {
			t.Errorf("a fetch below the floor: %v", err)
		}
	}
	if b, err := r.ReadFile(ctx, head, "a", 10); err != nil || string(b) != "1" {
		t.Errorf("the commit that was there: %q, %v", b, err)
	}
}
