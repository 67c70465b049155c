package upper

import (
	"errors"
	"hash/maphash"

	"golang.org/x/sys/unix"
)

// maxSeen is the maximum number of entries of a tree that is remembered: each takes some hundred bytes of memory.
const maxSeen = 32 << 10

// errForgot is the error of a comparison that cannot be made.
var errForgot = errors.New("the tree cannot be compared with what it was")

// Seen is a tree as it was: with a checksum of each file. It is compared by what it has, because a program can write
// a file through its memory without any change of the file's times.
type Seen struct {
	seed maphash.Seed
	root *seen
	left int // how many entries may still be added
}

func newSeen() *Seen { return &Seen{seed: maphash.MakeSeed(), root: &seen{}, left: maxSeen} }

// seen is an entry.
type seen struct {
	mode, uid, gid uint32 // the mode with the type
	links          uint64
	size           int64
	mtime          unix.Timespec
	sum            uint64 // of the content of a file, or of the target of a link
	opaque         bool
	children       map[string]*seen
}

// sees describes an entry of a directory.
func sees(m meta, st *unix.Stat_t, sum uint64) seen {
	s := seen{mode: st.Mode&unix.S_IFMT | m.mode, uid: m.uid, gid: m.gid, mtime: st.Mtim, sum: sum}
	if s.mode&unix.S_IFMT != unix.S_IFDIR {
		s.links, s.size = uint64(st.Nlink), st.Size
	}
	return s
}

// same reports whether two entries are the same. Files with several names never are: what their names are is not
// compared.
func (s *seen) same(o *seen) bool {
	if o == nil || s.links > 1 || o.links > 1 {
		return false
	}
	return s.mode == o.mode && s.uid == o.uid && s.gid == o.gid && s.size == o.size && s.mtime == o.mtime && s.sum == o.sum && s.opaque == o.opaque
}

func (s *seen) is(kind uint32) bool { return s != nil && s.mode&unix.S_IFMT == kind }

// note adds an entry of a directory to what is remembered, and returns what it was before; nil if it was not there.
func (p *walker) note(l level, name string, s seen) (is, was *seen, err error) {
	if l.was != nil {
		was = l.was.children[name]
	}
	if l.now == nil || p.now == nil {
		return &s, was, nil
	}
	if p.now.left--; p.now.left < 0 {
		if p.compares {
			return nil, nil, errForgot
		}
		p.now = nil // it is too large to be remembered
		return &s, was, nil
	}
	if l.now.children == nil {
		l.now.children = map[string]*seen{}
	}
	l.now.children[name] = &s
	return &s, was, nil
}

// gone hides what was in a directory and is not any more.
func (p *walker) gone(l level) error {
	if l.was == nil {
		return nil
	}
	for name, was := range l.was.children {
		if l.now.children[name] != nil {
			continue
		}
		if was.is(unix.S_IFCHR) { // what it hid cannot be shown again by a layer
			return errForgot
		}
		if err := p.out.whiteout(name); err != nil {
			return err
		}
	}
	return nil
}

// sum reads a file and returns a checksum, and its content if it is small.
func (p *walker) sum(fd int, size int64) (sum uint64, data []byte, err error) {
	if p.buf == nil {
		p.buf = make([]byte, 256<<10)
	}
	if p.o.Compare -= size; p.o.Compare < 0 {
		return 0, nil, ErrNoLayer
	}
	var h maphash.Hash
	h.SetSeed(p.now.seed)
	for off := int64(0); off < size; {
		if err := p.ctx.Err(); err != nil {
			return 0, nil, err
		}
		n, err := unix.Pread(fd, p.buf[:min(int64(len(p.buf)), size-off)], off)
		if err == unix.EINTR {
			continue
		}
		if err == nil && n == 0 {
			err = errChanged
		}
		if err != nil {
			return 0, nil, err
		}
		h.Write(p.buf[:n])
		if off += int64(n); off == size && int64(n) == size && size <= maxKept {
			data = append([]byte{}, p.buf[:n]...)
		}
	}
	return h.Sum64(), data, nil
}

// maxKept is the size of files that are kept in memory until a layer is written, in bytes.
const maxKept = 512

// lazy is a sink that gets a directory in which nothing has changed only if something in it has.
type lazy struct {
	out     sink
	waiting []pendingDir
	changes int
}

type pendingDir struct {
	name string
	m    meta
}

// maybe is dir for a directory that has not changed itself.
func (z *lazy) maybe(name string, m meta) { z.waiting = append(z.waiting, pendingDir{name, m}) }

// flush is called before everything that has changed.
func (z *lazy) flush() error {
	z.changes++
	for _, w := range z.waiting {
		if err := z.out.dir(w.name, w.m, false); err != nil {
			return err
		}
	}
	z.waiting = nil
	return nil
}

func (z *lazy) tree(name string, m meta) error { return z.out.tree(name, m) }

func (z *lazy) dir(name string, m meta, opaque bool) error {
	return errors.Join(z.flush(), z.out.dir(name, m, opaque))
}

func (z *lazy) up() error {
	if n := len(z.waiting); n > 0 {
		z.waiting = z.waiting[:n-1]
		return nil
	}
	return z.out.up()
}

func (z *lazy) file(name string, m meta, f content) error {
	return errors.Join(z.flush(), z.out.file(name, m, f))
}

func (z *lazy) hard(name, first string) error {
	return errors.Join(z.flush(), z.out.hard(name, first))
}

func (z *lazy) symlink(name string, m meta, target string, e again) error {
	return errors.Join(z.flush(), z.out.symlink(name, m, target, e))
}

func (z *lazy) special(rec byte, name string, m meta, e again) error {
	return errors.Join(z.flush(), z.out.special(rec, name, m, e))
}

func (z *lazy) whiteout(name string) error { return errors.Join(z.flush(), z.out.whiteout(name)) }
