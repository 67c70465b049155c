//go:build unix

package shadow

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// checkOwner returns KindDenied for a file that belongs neither to this user nor to others.
func checkOwner(name string, info fs.FileInfo, others []uint32) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return api.Errorf(api.KindUnsupported, "%s: its owner is unknown", name)
	}
	if st.Uid == uint32(os.Geteuid()) || slices.Contains(others, st.Uid) {
		return nil
	}
	return api.Errorf(api.KindDenied, "%s belongs to another user (uid %d)", name, st.Uid).
		WithHint("use your own clone: git clone %s", name)
}

// openRegular opens a regular file for reading, without following a link or waiting for a
// pipe.
func openRegular(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("not a regular file")}
	}
	return f, nil
}
