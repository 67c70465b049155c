package beneath

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTree opens what a guest may have put into a tree: nothing outside is reached, and a
// pipe without a writer does not block.
func TestTree(t *testing.T) {
	top := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(top, "tree/dir"), 0o755))
	must(os.WriteFile(filepath.Join(top, "secret"), nil, 0o600))
	must(os.WriteFile(filepath.Join(top, "tree/file"), nil, 0o600))
	must(os.Symlink("../secret", filepath.Join(top, "tree/link")))
	must(os.Symlink("..", filepath.Join(top, "tree/up")))
	must(unix.Mkfifo(filepath.Join(top, "tree/pipe"), 0o600))
	dir, err := unix.Open(filepath.Join(top, "tree"), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(err)
	defer unix.Close(dir)
	for path, want := range map[string]error{
		"file": nil, "dir": nil, "pipe": nil, "link": unix.ELOOP, "up/secret": unix.ELOOP, "../secret": unix.EXDEV, "/etc/passwd": unix.EXDEV, "none": unix.ENOENT,
	} {
		fd, err := Open(dir, path, unix.O_RDONLY)
		if err == nil {
			unix.Close(fd)
		}
		if !errors.Is(err, want) {
			t.Errorf("open %s: %v, want %v", path, err, want)
		}
	}
	if _, err := OpenDir(dir, "file"); err != unix.ENOTDIR {
		t.Errorf("a file as a directory: %v", err)
	}
	if st, err := Stat(dir, "link"); err != nil || st.Mode&unix.S_IFMT != unix.S_IFLNK {
		t.Errorf("a link: mode %o, %v", st.Mode, err)
	}
	for max, want := range map[int]error{9: nil, 8: unix.ENAMETOOLONG} {
		if _, err := Readlink(dir, "link", max); err != want {
			t.Errorf("a target of 9 bytes, at most %d: %v", max, err)
		}
	}
	for range 2 { // the descriptor stays open, and where it was
		var names []string
		must(Names(dir, func(name string) error { names = append(names, name); return nil }))
		slices.Sort(names)
		if want := []string{"dir", "file", "link", "pipe", "up"}; !slices.Equal(names, want) {
			t.Errorf("names %q, want %q", names, want)
		}
	}
}
