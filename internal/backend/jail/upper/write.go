package upper

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/storage/beneath"
)

// Tree is a directory to save.
type Tree struct {
	// Name is the name for Reader, 1 to 255 bytes.
	Name string
	// Dir is a readable descriptor, which the caller closes.
	Dir int
}

// Options configure Write.
type Options struct {
	// ID translates an id of the host to the id inside; false refuses the entry.
	ID func(host uint32) (inside uint32, ok bool)
	// Entries and Bytes are the maximum of all trees together: number of entries, and bytes
	// of content without holes.
	Entries, Bytes int64
	// Lift is true if the caller owns every file but cannot override modes: an unreadable file
	// is made readable while it is read.
	Lift bool
}

// Write saves trees, in their order, while nothing changes them.
//
// It returns a *RefusedError if a tree cannot be saved, the error of ctx, or that of w.
func Write(ctx context.Context, w io.Writer, trees []Tree, o Options) error {
	p := &packer{ctx: ctx, w: bufio.NewWriterSize(w, 256<<10), o: o, buf: make([]byte, 256<<10)}
	p.w.WriteString(magic)
	for _, t := range trees {
		if err := p.tree(t); err != nil {
			return err
		}
	}
	p.w.WriteByte(recEnd)
	return p.w.Flush()
}

// packer writes one saved file. It keeps the first error of its writer, and checks it while
// contents are copied.
type packer struct {
	ctx   context.Context
	w     *bufio.Writer
	o     Options
	buf   []byte
	path  []string // the directories that are open
	links map[inode]string
}

type inode struct{ dev, ino uint64 }

func (p *packer) tree(t Tree) error {
	if !goodName(t.Name) {
		return fmt.Errorf("a tree cannot be named %q", t.Name)
	}
	p.links = map[inode]string{}
	var st unix.Stat_t
	if err := unix.Fstat(t.Dir, &st); err != nil {
		return err
	}
	// An opaque top directory has no meaning.
	_, mode, err := attrs(t.Dir, &st)
	if err != nil {
		return p.at("", err)
	}
	if err := p.head(recTree, t.Name, &st, mode); err != nil {
		return p.at("", err)
	}
	return p.entries(t.Dir)
}

// entries saves the entries of a directory, and its end.
func (p *packer) entries(dir int) error {
	err := beneath.Names(dir, func(name string) error { return p.at(name, p.entry(dir, name)) })
	if err != nil {
		return err
	}
	return p.w.WriteByte(recUp)
}

// at adds the path of the innermost entry to an error.
func (p *packer) at(name string, err error) error {
	if err == nil {
		return nil
	}
	path := "/" + strings.Join(append(p.path[:len(p.path):len(p.path)], name), "/")
	var r *RefusedError
	if errors.As(err, &r) {
		r.Path = cmp.Or(r.Path, path)
		return err
	}
	var e *entryError
	if errors.As(err, &e) || p.ctx.Err() != nil {
		return err
	}
	return &entryError{path, err}
}

type entryError struct {
	path string
	err  error
}

func (e *entryError) Error() string { return fmt.Sprintf("%.200q: %v", e.path, e.err) }
func (e *entryError) Unwrap() error { return e.err }

func refuse(format string, args ...any) error {
	return &RefusedError{Why: fmt.Sprintf(format, args...)}
}

func (p *packer) entry(dir int, name string) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	if p.o.Entries--; p.o.Entries < 0 {
		return refuse("it exceeds the maximum number of entries of the sandbox's disk")
	}
	if !goodName(name) {
		return refuse("its name is invalid")
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	switch kind := st.Mode & unix.S_IFMT; {
	case kind == unix.S_IFCHR && st.Rdev == 0:
		return p.name(recWhiteout, name)
	case kind == unix.S_IFDIR:
		return p.dir(dir, name, &st)
	case kind == unix.S_IFCHR || kind == unix.S_IFBLK:
		return refuse("it is a device")
	}
	if done, err := p.again(name, &st); done || err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return p.file(dir, name, &st)
	case unix.S_IFLNK:
		target, err := beneath.Readlink(dir, name, maxText)
		if err != nil {
			return err
		}
		if err := p.head(recSymlink, name, &st, 0); err != nil {
			return err
		}
		return p.text(target)
	case unix.S_IFIFO:
		return p.head(recFifo, name, &st, st.Mode&0o7777)
	case unix.S_IFSOCK:
		return p.head(recSocket, name, &st, st.Mode&0o7777)
	}
	return refuse("unknown file type")
}

// again saves another name of an entry that was saved before.
func (p *packer) again(name string, st *unix.Stat_t) (bool, error) {
	if st.Nlink < 2 {
		return false, nil
	}
	id := inode{uint64(st.Dev), st.Ino}
	first, ok := p.links[id]
	if !ok {
		p.links[id] = strings.Join(append(p.path[:len(p.path):len(p.path)], name), "/")
		return false, nil
	}
	if err := p.name(recHard, name); err != nil {
		return true, err
	}
	return true, p.text(first)
}

func (p *packer) dir(in int, name string, st *unix.Stat_t) error {
	length := 0
	for _, d := range p.path {
		length += len(d) + 1
	}
	if len(p.path) >= maxDepth || length+len(name)+1+maxName > maxText {
		return refuse("directories are nested deeper than %d levels or %d bytes", maxDepth, maxText)
	}
	fd, done, err := openLooked(in, name, st, p.o.Lift)
	if err != nil {
		return err
	}
	defer done()
	opaque, mode, err := attrs(fd, st)
	if err != nil {
		return err
	}
	rec := byte(recDir)
	if opaque {
		rec = recOpaque
	}
	if err := p.head(rec, name, st, mode); err != nil {
		return err
	}
	p.path = append(p.path, name)
	err = p.entries(fd)
	p.path = p.path[:len(p.path)-1]
	return err
}

func (p *packer) file(in int, name string, st *unix.Stat_t) error {
	fd, done, err := openLooked(in, name, st, p.o.Lift)
	if err != nil {
		return err
	}
	defer done()
	_, mode, err := attrs(fd, st)
	if err != nil {
		return err
	}
	if err := p.head(recFile, name, st, mode); err != nil {
		return err
	}
	p.number(st.Size)
	for off := int64(0); off < st.Size; {
		start, err := unix.Seek(fd, off, unix.SEEK_DATA)
		if err == unix.ENXIO {
			break // a hole to the end
		}
		if err != nil {
			return err
		}
		end, err := unix.Seek(fd, start, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if end = min(end, st.Size); end <= start {
			break
		}
		if err := p.extent(fd, start, end); err != nil {
			return err
		}
		off = end
	}
	p.number(st.Size)
	return p.number(0)
}

// extent saves a part of a file that is not a hole.
func (p *packer) extent(fd int, off, end int64) error {
	if p.o.Bytes -= end - off; p.o.Bytes < 0 {
		return refuse("it exceeds the size of the sandbox's disk")
	}
	p.number(off)
	p.number(end - off)
	for off < end {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		n, err := unix.Pread(fd, p.buf[:min(int64(len(p.buf)), end-off)], off)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return errChanged
		}
		if _, err := p.w.Write(p.buf[:n]); err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}

// head writes the start of a record.
func (p *packer) head(rec byte, name string, st *unix.Stat_t, mode uint32) error {
	uid, ok := p.o.ID(st.Uid)
	gid, gok := p.o.ID(st.Gid)
	if !ok || !gok {
		return refuse("it belongs to %d:%d, which are not ids of the sandbox", st.Uid, st.Gid)
	}
	p.name(rec, name)
	var b [metaSize]byte
	binary.LittleEndian.PutUint32(b[0:], mode)
	binary.LittleEndian.PutUint32(b[4:], uid)
	binary.LittleEndian.PutUint32(b[8:], gid)
	binary.LittleEndian.PutUint64(b[12:], uint64(st.Mtim.Sec))
	binary.LittleEndian.PutUint32(b[20:], uint32(st.Mtim.Nsec))
	_, err := p.w.Write(b[:])
	return err
}

func (p *packer) name(rec byte, name string) error {
	p.w.WriteByte(rec)
	p.w.WriteByte(byte(len(name)))
	_, err := p.w.WriteString(name)
	return err
}

func (p *packer) text(s string) error {
	p.w.Write(binary.LittleEndian.AppendUint16(nil, uint16(len(s))))
	_, err := p.w.WriteString(s)
	return err
}

func (p *packer) number(n int64) error {
	_, err := p.w.Write(binary.LittleEndian.AppendUint64(nil, uint64(n)))
	return err
}
