package workspace

import (
	"io"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/storage/beneath"
)

// Old is what the layers have where a workspace has a change.
type Old struct {
	Mode Mode
	// Size and Open are as in Change.
	Size int64
	Open func() (io.ReadCloser, error)
}

// old describes a file of the layers; nil if it is none that could be shown.
func (v *view) old(f found, p, name string) *Old {
	if !f.file {
		return nil
	}
	o := &Old{Mode: Regular, Size: f.st.Size}
	switch f.st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if f.st.Mode&0o100 != 0 {
			o.Mode = Executable
		}
		o.Open = v.opener(p, f.st)
	case unix.S_IFLNK:
		o.Mode = Symlink
		target, err := beneath.Readlink(f.in, name, maxTarget)
		if err != nil {
			return nil
		}
		o.Size, o.Open = int64(len(target)), text(target)
	default:
		return nil
	}
	return o
}

// opener opens a regular file of the layers again: the layer in which it is the one that was
// looked at.
func (v *view) opener(p string, was unix.Stat_t) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		err := error(unix.ENOENT)
		for _, root := range v.roots {
			f, rerr := reopen(root, p, was)
			if rerr == nil {
				return &exact{f: f, left: was.Size}, nil
			}
			err = rerr
		}
		return nil, err
	}
}
