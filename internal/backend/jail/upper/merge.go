package upper

import (
	"golang.org/x/sys/unix"

	"hortus.dev/internal/storage/beneath"
)

func isWhiteout(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0
}

// descend completes the level of a directory whose first part was found in the directory i of in: with
// what lies below that, as an overlay shows it. closeAll closes what was opened, also after an error.
func (l *level) descend(in level, i int, name string) (closeAll func(), err error) {
	var opened []int
	closeAll = func() {
		for _, fd := range opened {
			unix.Close(fd)
		}
	}
	// open opens the next part. It returns -1 if there is none, and whether nothing lies below.
	open := func(dir int) (fd int, last bool, err error) {
		st, err := beneath.Stat(dir, name)
		if err == unix.ENOENT {
			return -1, false, nil
		}
		if err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return -1, true, err
		}
		if fd, err = beneath.OpenDir(dir, name); err != nil {
			return -1, true, err
		}
		opened = append(opened, fd)
		var value [8]byte
		n, err := unix.Fgetxattr(fd, opaqueMark, value[:])
		return fd, err == nil && n > 0, nil
	}
	for j := i + 1; j < len(in.dirs) && !l.opaque; j++ {
		fd, last, err := open(in.dirs[j])
		if err != nil {
			return closeAll, err
		}
		if fd >= 0 {
			l.dirs, l.sources = append(l.dirs, fd), append(l.sources, in.sources[j])
		}
		l.opaque = last
	}
	if l.opaque || in.opaque {
		return closeAll, nil
	}
	for _, dir := range in.under {
		fd, last, err := open(dir)
		if err != nil {
			return closeAll, err
		}
		if fd >= 0 {
			l.under = append(l.under, fd)
		}
		if last {
			break
		}
	}
	return closeAll, nil
}

// hides reports whether there is something of a name under the directory, which a whiteout hides.
func (l level) hides(name string) (bool, error) {
	if l.opaque {
		return false, nil
	}
	for _, dir := range l.under {
		st, err := beneath.Stat(dir, name)
		if err == unix.ENOENT {
			continue
		}
		return err == nil && !isWhiteout(&st), err
	}
	return false, nil
}
