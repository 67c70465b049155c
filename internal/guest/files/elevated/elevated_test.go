//go:build linux

package elevated

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
)

// TestSwappedLinksAreNotFollowed replaces names by links after a walk.
func TestSwappedLinksAreNotFollowed(t *testing.T) {
	top := t.TempDir()
	for _, err := range []error{os.Mkdir(top+"/dir", 0o755), os.WriteFile(top+"/dir/kept", []byte("kept"), 0o644),
		os.Symlink("dir", top+"/dirlink"), os.Symlink("dir/kept", top+"/link")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	fd, err := unix.Open(top, dirFlags, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	o := Files{User: &birth.Identity{Name: "user", UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}}
	if f, err := o.open(location{fd, "link"}, "link"); err == nil {
		f.Close()
		t.Error("a link was opened")
	}
	own, err := unix.Dup(fd)
	if err != nil {
		t.Fatal(err)
	}
	p := location{own, "."}
	defer func() { p.close() }()
	if err := p.enter("dirlink"); err == nil {
		t.Error("a link was entered")
	}
	if err := (location{fd, "dirlink"}).remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(top + "/dirlink"); !os.IsNotExist(err) {
		t.Errorf("the link itself is there still: %v", err)
	}
	if data, err := os.ReadFile(top + "/dir/kept"); err != nil || string(data) != "kept" {
		t.Errorf("behind the link: %q, %v", data, err)
	}
}
