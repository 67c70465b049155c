package upper

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/storage/beneath"
)

// Reader restores what Write saved, one tree after the other. Nobody else may use a directory
// while it is being filled.
type Reader struct {
	r   *bufio.Reader
	own func(fd int, name string, uid, gid uint32) error
	buf []byte
	// over says that entries replace what is there.
	over bool
}

// NewReader reads the start of a saved file. Own changes the owner of an entry of the directory fd
// to an id inside, without following links; an empty name means fd itself.
func NewReader(r io.Reader, own func(fd int, name string, uid, gid uint32) error) (*Reader, error) {
	u := &Reader{r: bufio.NewReaderSize(r, 64<<10), own: own, buf: make([]byte, 128<<10)}
	b := u.buf[:len(magic)]
	if _, err := io.ReadFull(u.r, b); err != nil || string(b) != magic {
		return nil, errBad("invalid header")
	}
	return u, nil
}

// Tree fills an empty directory with the next tree, which must have this name.
func (u *Reader) Tree(name string, dir int) error {
	rec, err := u.byte()
	if err != nil {
		return err
	}
	got, err := u.name()
	if err != nil {
		return err
	}
	if rec != recTree || got != name {
		return errBad("%s is missing", name)
	}
	top, err := u.readMeta()
	if err != nil {
		return err
	}
	if err := u.fill(dir, dir, 0); err != nil {
		return err
	}
	return u.finish(dir, top)
}

// Over makes a directory what [WriteBetween] saved: it must have what the tree was. What is removed may have mounts, which is an error; the
// entries of a directory that remains are changed one by one.
func (u *Reader) Over(name string, dir int) error {
	u.over = true
	defer func() { u.over = false }()
	return u.Tree(name, dir)
}

// discard removes what is at the place of an entry. A directory stays if keep is set.
func discard(dir int, name string, keep bool, depth int) error {
	st, err := beneath.Stat(dir, name)
	switch {
	case err == unix.ENOENT:
		return nil
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return unix.Unlinkat(dir, name, 0)
	case keep:
		return nil
	case depth > maxDepth:
		return errBad("what it replaces is nested too deep")
	}
	fd, err := beneath.OpenDir(dir, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// An overlay does not list a directory completely while entries of it are removed.
	var names []string
	if err := beneath.Names(fd, func(name string) error { names = append(names, name); return nil }); err != nil {
		return err
	}
	for _, sub := range names {
		if err := discard(fd, sub, false, depth+1); err != nil {
			return err
		}
	}
	return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
}

// End checks that nothing follows.
func (u *Reader) End() error {
	rec, err := u.byte()
	if err != nil {
		return err
	}
	if _, err := u.r.ReadByte(); rec != recEnd || err != io.EOF {
		return errBad("trailing data")
	}
	return nil
}

// fill makes the entries of a directory until its end.
func (u *Reader) fill(top, dir, depth int) error {
	if depth > maxDepth {
		return errBad("directories are nested too deep")
	}
	for {
		rec, err := u.byte()
		if err != nil {
			return err
		}
		if rec == recUp {
			return nil
		}
		name, err := u.name()
		if err != nil {
			return err
		}
		if err := u.entry(top, dir, depth, rec, name); err != nil {
			return err
		}
	}
}

func (u *Reader) entry(top, dir, depth int, rec byte, name string) error {
	if u.over {
		if err := discard(dir, name, rec == recDir, depth); err != nil {
			return err
		}
	}
	switch rec {
	case recWhiteout:
		if u.over {
			return nil
		}
		return unix.Mknodat(dir, name, unix.S_IFCHR, 0)
	case recHard:
		return u.hard(top, dir, name)
	}
	m, err := u.readMeta()
	if err != nil {
		return err
	}
	switch rec {
	case recDir, recOpaque:
		return u.dir(top, dir, depth, name, m, rec == recOpaque)
	case recFile:
		return u.file(dir, name, m)
	case recSymlink:
		target, err := u.text()
		if err != nil {
			return err
		}
		if err := unix.Symlinkat(target, dir, name); err != nil {
			return err
		}
		if err := u.own(dir, name, m.uid, m.gid); err != nil {
			return err
		}
		return m.stamp(dir, name)
	case recFifo, recSocket:
		kind := uint32(unix.S_IFIFO)
		if rec == recSocket {
			kind = unix.S_IFSOCK
		}
		if err := unix.Mknodat(dir, name, kind|0o600, 0); err != nil {
			return err
		}
		if err := u.own(dir, name, m.uid, m.gid); err != nil {
			return err
		}
		// It was created here, in a directory that nobody else can change, so it is not a
		// link.
		if err := unix.Fchmodat(dir, name, m.mode, 0); err != nil {
			return err
		}
		return m.stamp(dir, name)
	}
	return errBad("unknown record %q", rec)
}

func (u *Reader) dir(top, in, depth int, name string, m meta, opaque bool) error {
	if err := unix.Mkdirat(in, name, 0o700); err != nil && !(u.over && err == unix.EEXIST) {
		return err
	}
	fd, err := beneath.OpenDir(in, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if opaque {
		if err := unix.Fsetxattr(fd, opaqueMark, []byte("y"), 0); err != nil {
			return err
		}
	}
	if err := u.fill(top, fd, depth+1); err != nil {
		return err
	}
	return u.finish(fd, m)
}

// finish sets the metadata of an open file or directory.
func (u *Reader) finish(fd int, m meta) error {
	if err := u.own(fd, "", m.uid, m.gid); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, m.mode); err != nil { // after the owner, whose change takes bits away
		return err
	}
	return m.stamp(fd, "")
}

// stamp sets the modification time.
func (m meta) stamp(fd int, name string) error {
	t := unix.NsecToTimespec(0)
	t.Sec, t.Nsec = m.sec, int64(m.nsec)
	flags := unix.AT_SYMLINK_NOFOLLOW
	if name == "" {
		flags = unix.AT_EMPTY_PATH
	}
	return unix.UtimesNanoAt(fd, name, []unix.Timespec{{Nsec: unix.UTIME_OMIT}, t}, flags)
}

func (u *Reader) file(in int, name string, m meta) error {
	fd, err := unix.Openat(in, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	size, err := u.number()
	if err != nil {
		return err
	}
	if size > 0 {
		if err := unix.Ftruncate(fd, size); err != nil {
			return err
		}
	}
	for at := int64(0); ; {
		off, err := u.number()
		if err != nil {
			return err
		}
		n, err := u.number()
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		if off < at || n > size || off > size-n {
			return errBad("the content of a file exceeds its size")
		}
		at = off + n
		if err := u.extent(fd, off, n); err != nil {
			return err
		}
	}
	return u.finish(fd, m)
}

func (u *Reader) extent(fd int, off, n int64) error {
	for n > 0 {
		b := u.buf[:min(int64(len(u.buf)), n)]
		if _, err := io.ReadFull(u.r, b); err != nil {
			return cut(err)
		}
		for len(b) > 0 {
			w, err := unix.Pwrite(fd, b, off)
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				return err
			}
			b, off, n = b[w:], off+int64(w), n-int64(w)
		}
	}
	return nil
}

// hard makes a hard link to an earlier entry of the tree.
func (u *Reader) hard(top, dir int, name string) error {
	target, err := u.text()
	if err != nil {
		return err
	}
	for part := range strings.SplitSeq(target, "/") {
		if !goodName(part) {
			return errBad("invalid link to %.80q", target)
		}
	}
	in := top
	if parent := path.Dir(target); parent != "." {
		if in, err = beneath.Open(top, parent, unix.O_PATH|unix.O_DIRECTORY); err != nil {
			return errBad("invalid link to %.80q: %v", target, err)
		}
		defer unix.Close(in)
	}
	if err := unix.Linkat(in, path.Base(target), dir, name, 0); err != nil {
		if err == unix.ENOENT || err == unix.EPERM || err == unix.ENOTDIR {
			return errBad("invalid link to %.80q: %v", target, err)
		}
		return err
	}
	return nil
}

func (u *Reader) byte() (byte, error) {
	b, err := u.r.ReadByte()
	return b, cut(err)
}

func (u *Reader) name() (string, error) {
	n, err := u.byte()
	if err != nil {
		return "", err
	}
	b := u.buf[:n]
	if _, err := io.ReadFull(u.r, b); err != nil {
		return "", cut(err)
	}
	if name := string(b); goodName(name) {
		return name, nil
	}
	return "", errBad("invalid name %.40q", b)
}

func (u *Reader) text() (string, error) {
	b := u.buf[:2]
	if _, err := io.ReadFull(u.r, b); err != nil {
		return "", cut(err)
	}
	n := binary.LittleEndian.Uint16(b)
	if n == 0 || n > maxText {
		return "", errBad("invalid string length %d", n)
	}
	b = u.buf[:n]
	if _, err := io.ReadFull(u.r, b); err != nil {
		return "", cut(err)
	}
	if strings.ContainsRune(string(b), 0) {
		return "", errBad("string with a NUL byte")
	}
	return string(b), nil
}

func (u *Reader) number() (int64, error) {
	b := u.buf[:8]
	if _, err := io.ReadFull(u.r, b); err != nil {
		return 0, cut(err)
	}
	n := int64(binary.LittleEndian.Uint64(b))
	if n < 0 {
		return 0, errBad("negative number")
	}
	return n, nil
}

func (u *Reader) readMeta() (meta, error) {
	b := u.buf[:metaSize]
	if _, err := io.ReadFull(u.r, b); err != nil {
		return meta{}, cut(err)
	}
	m := meta{
		mode: binary.LittleEndian.Uint32(b[0:]), uid: binary.LittleEndian.Uint32(b[4:]), gid: binary.LittleEndian.Uint32(b[8:]),
		sec: int64(binary.LittleEndian.Uint64(b[12:])), nsec: binary.LittleEndian.Uint32(b[20:]),
	}
	if m.mode > 0o7777 || m.nsec >= 1e9 {
		return m, errBad("invalid mode %o or time", m.mode)
	}
	return m, nil
}

// cut replaces the error of a truncated file.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errBad("they are truncated")
	}
	return err
}
