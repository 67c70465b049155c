package erofs_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/storage/layer/erofs"
	"hortus.dev/internal/storage/layer/mount"
)

// TestBuild: the kernel shows a built tree as it was described.
func TestBuild(t *testing.T) {
	m, err := mount.Find(t.Context(), t.TempDir())
	if err != nil {
		t.Skipf("this host cannot mount images: %v", err)
	}
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, []byte(strings.Repeat("0123456789", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(mode uint32) erofs.Meta { return erofs.Meta{Mode: mode, UID: 3, GID: 4, Sec: 1e9, Nsec: 5} }
	b := erofs.NewBuilder(at(0o711))
	d := b.Root().Dir("dir", erofs.Meta{Mode: 0o1777, Attr: "user.overlay.opaque", Value: "y"})
	d.Link("again", b.Root().Small("small", at(0o4755), []byte("content")))
	d.File("big", at(0o640), 10_000, func() (int, error) { return unix.Open(big, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	d.File("empty", at(0), 0, nil)
	if _, err := d.Symlink("link", at(0), "/etc/passwd"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Symlink("bad", at(0), ""); err == nil {
		t.Error("a link without a target was added")
	}
	d.Special("gone", erofs.Meta{Mode: unix.S_IFCHR})
	d.Special("pipe", at(unix.S_IFIFO|0o600))
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := b.Write(t.Context(), f)
	if err != nil || info.Entries != 8 || info.Bytes != 10_007 || info.Image == 0 {
		t.Fatalf("%+v, %v", info, err)
	}
	img, err := m.Mount(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	got := listing(t, img.Path())
	for name, want := range map[string][]string{
		".":         {"40711 3:4", "mtime 1000000000.000000005", "links 3"},
		"dir":       {"41777 0:0", "user.overlay.opaque=y", "links 2"},
		"small":     {"104755 3:4 links 2", `content "content"`},
		"dir/again": {"104755 3:4 links 2", `content "content"`},
		"dir/big":   {"100640 3:4 links 1", "size 10000", strings.Repeat("0123456789", 1000)},
		"dir/empty": {"100000 3:4", "size 0"},
		"dir/link":  {"120777 3:4", `content "/etc/passwd"`},
		"dir/gone":  {"20000 0:0", "rdev 0"},
		"dir/pipe":  {"10600 3:4"},
	} {
		for _, part := range want {
			if !strings.Contains(got[name], part) {
				t.Errorf("%s is %q, without %q", name, got[name], part)
			}
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("also: %v", got)
	}
}

// TestBuildRefuses: a file that is not as it was said, or cannot be opened, and a name that is there twice.
func TestBuildRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) }
	failed := errors.New("cannot")
	for name, tc := range map[string]struct {
		make func(d erofs.Dir)
		ok   bool
	}{
		"as it is": {func(d erofs.Dir) { d.File("f", erofs.Meta{}, 5, open) }, true},
		"shorter":  {func(d erofs.Dir) { d.File("f", erofs.Meta{}, 6, open) }, false},
		"longer":   {func(d erofs.Dir) { d.File("f", erofs.Meta{}, 4, open) }, false},
		"missing":  {func(d erofs.Dir) { d.File("f", erofs.Meta{}, 4, func() (int, error) { return -1, failed }) }, false},
		"twice":    {func(d erofs.Dir) { d.Dir("f", erofs.Meta{}); d.File("f", erofs.Meta{}, 5, open) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := os.Create(filepath.Join(t.TempDir(), "image"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			b := erofs.NewBuilder(erofs.Meta{})
			tc.make(b.Root().Dir("d", erofs.Meta{}))
			if _, err := b.Write(t.Context(), f); (err == nil) != tc.ok {
				t.Error(err)
			}
		})
	}
}
