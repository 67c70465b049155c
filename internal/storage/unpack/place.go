package unpack

import (
	"archive/tar"
	"context"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/beneath"
)

// maxLink is the maximum length of the target of a symbolic link, in bytes.
const maxLink = 4095

// reader is a Reader that ends with its context.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// replace removes what is at a name, so that a new entry can be created there. hidden reports
// that it was a whiteout.
func (a *applier) replace(at int, name, base string) (hidden bool, err error) {
	st, err := beneath.Stat(at, base)
	if err == unix.ENOENT {
		return false, nil
	}
	if err != nil {
		return false, failed("replace", name, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return isWhiteout(st), failed("replace", name, unix.Unlinkat(at, base, 0))
	}
	err = unix.Unlinkat(at, base, unix.AT_REMOVEDIR)
	if err == unix.ENOTEMPTY || err == unix.EEXIST {
		return false, refusef("entry %.200q replaces a directory that is not empty", name)
	}
	delete(a.dirs, name)
	return false, failed("replace", name, err)
}

// mkdir creates a directory, or takes over one that is there.
func (a *applier) mkdir(at int, name, base string, h *tar.Header) error {
	attr := a.attributes(h)
	st, err := beneath.Stat(at, base)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		attr.opaque = a.dirs[name].opaque
		a.dirs[name] = attr
		return nil
	}
	if attr.opaque, err = a.replace(at, name, base); err != nil {
		return err
	}
	if err := unix.Mkdirat(at, base, 0o700); err != nil {
		return failed("create directory", name, err)
	}
	a.dirs[name] = attr
	return nil
}

// file creates a regular file.
func (a *applier) file(at int, name, base string, h *tar.Header, r io.Reader) error {
	if h.Size < 0 || h.Size > a.MaxBytes-a.res.Bytes {
		return refusef("the files of the archive have more than %d bytes", a.MaxBytes)
	}
	if _, err := a.replace(at, name, base); err != nil {
		return err
	}
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(at, base, flags, 0o600)
	if err != nil {
		return failed("create", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	n, err := io.Copy(f, reader{a.ctx, r})
	a.res.Bytes += n
	if err != nil {
		return a.copyError(name, err)
	}
	if n != h.Size {
		return refusef("entry %.200q is truncated", name)
	}
	return failed("set the attributes of", name, a.set(fd, a.attributes(h)))
}

// copyError returns why the content of a file could not be written.
func (a *applier) copyError(name string, err error) error {
	if pe, ok := err.(*os.PathError); ok {
		err = pe.Err
	}
	if errno, ok := err.(unix.Errno); ok {
		return failed("write to "+a.dir, name, errno)
	}
	if a.ctx.Err() != nil || api.KindOf(err) == api.KindInvalid {
		return err
	}
	return refusef("entry %.200q: %w", name, err)
}

// symlink creates a symbolic link. Its target is text, which nothing on the host follows.
func (a *applier) symlink(at int, name, base string, h *tar.Header) error {
	if h.Linkname == "" || len(h.Linkname) > maxLink || strings.ContainsRune(h.Linkname, 0) {
		return refusef("the target of the link %.200q is empty, too long or contains a NUL byte", name)
	}
	if _, err := a.replace(at, name, base); err != nil {
		return err
	}
	if err := unix.Symlinkat(h.Linkname, at, base); err != nil {
		return failed("create link", name, err)
	}
	attr := a.attributes(h)
	if a.Owners {
		if err := unix.Fchownat(at, base, attr.uid, attr.gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return failed("set the owner of", name, err)
		}
	}
	return failed("set the time of", name, unix.UtimesNanoAt(at, base, attr.times(), unix.AT_SYMLINK_NOFOLLOW))
}

// link creates a hard link to a file of this layer.
func (a *applier) link(at int, name, base string, h *tar.Header) error {
	target, err := a.clean(h.Linkname)
	if err != nil {
		return err
	}
	dir, last := path.Split(target)
	from, err := beneath.OpenDir(a.root, path.Clean(dir))
	if err == unix.ENOENT {
		return refusef("the hard link %.200q leads to %.200q, which is not in its layer", name, target)
	}
	if err != nil {
		return failed("link", name, err)
	}
	defer unix.Close(from)
	st, err := beneath.Stat(from, last)
	mode := st.Mode & unix.S_IFMT
	switch {
	case target == "." || err == unix.ENOENT || err == nil && isWhiteout(st):
		return refusef("the hard link %.200q leads to %.200q, which is not in its layer", name, target)
	case err != nil:
		return failed("link", name, err)
	case mode != unix.S_IFREG && mode != unix.S_IFLNK:
		return refusef("the hard link %.200q leads to %.200q, which is not a file", name, target)
	case target == name:
		return nil // to itself: nothing to do
	}
	if _, err := a.replace(at, name, base); err != nil {
		return err
	}
	return failed("link", name, unix.Linkat(from, last, at, base, 0))
}

// finish gives directories their attributes, the deepest first.
func (a *applier) finish() error {
	a.leave()
	names := slices.Sorted(maps.Keys(a.dirs))
	for _, name := range slices.Backward(names) {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		fd, err := beneath.OpenDir(a.root, name)
		if err == nil {
			err = a.set(fd, a.dirs[name])
			unix.Close(fd)
		}
		if err != nil {
			return failed("set the attributes of", name, err)
		}
	}
	return nil
}

// times returns the times of access and change for the system call.
func (d attributes) times() []unix.Timespec {
	t := d.mtime
	if t.Year() < 1902 || t.Year() > 2400 { // outside of what file systems store
		t = time.Unix(0, 0)
	}
	ts := unix.NsecToTimespec(0)
	ts.Sec, ts.Nsec = t.Unix(), int64(t.Nanosecond())
	return []unix.Timespec{ts, ts}
}
