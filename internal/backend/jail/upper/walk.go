package upper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/storage/beneath"
)

// sink receives a tree, one entry after the other.
type sink interface {
	tree(name string, m meta) error
	dir(name string, m meta, opaque bool) error
	up() error // the end of a directory, or of the tree
	file(name string, m meta, f content) error
	// hard is another name of an entry, whose path was the first one.
	hard(name, first string) error
	symlink(name string, m meta, target string, e again) error
	special(rec byte, name string, m meta, e again) error // a fifo or a socket
	whiteout(name string) error
}

// again is the path of an entry that may get more names; "" for one that has only one.
type again string

// content is an open regular file.
type content struct {
	fd    int
	size  int64
	again again
	// source is the index of the directory that has it, Dir or one of Below, and path where it is.
	source int
	path   []string
	// data is the content of a small file, if it was read.
	data []byte
}

// walker reads one tree. It reads every entry from the first of the directories that has it.
type walker struct {
	ctx   context.Context
	o     *Options
	out   sink
	path  []string // the directories that are open
	links map[inode]string

	// now is what is read, if it is to be remembered; compares says that it is compared with what was. Only a
	// tree of one directory is.
	now      *Seen
	compares bool
	merges   bool // the tree has several directories
	buf      []byte
}

type inode struct{ dev, ino uint64 }

// level is a directory of a tree: what is in dirs, the top one first, and below it under. sources are the
// indexes of dirs. opaque hides what is under.
type level struct {
	dirs, sources, under []int
	opaque               bool
	// now is what is read of it, and was what it was; nil if that is not wanted, or all of it is new.
	now, was *seen
}

// walk reads a tree. It counts down the entries that o allows.
func walk(ctx context.Context, t Tree, o *Options, out sink) error {
	p := &walker{ctx: ctx, o: o, out: out, links: map[inode]string{}}
	return p.all(t, level{under: t.Under})
}

// walkSince reads a tree of one directory, and only what is not as it was; all of it if was is nil. It returns what
// the tree is, or nil if that is too large to be remembered, and how many changes there are.
func walkSince(ctx context.Context, t Tree, o *Options, was *Seen, out sink) (*Seen, int, error) {
	z := &lazy{out: out}
	p := &walker{ctx: ctx, o: o, out: z, links: map[inode]string{}, now: newSeen(), compares: was != nil}
	l := level{now: p.now.root}
	if was != nil {
		p.now.seed, l.was = was.seed, was.root
	}
	err := p.all(t, l)
	return p.now, z.changes, err
}

// all reads a tree, of which l is the top.
func (p *walker) all(t Tree, l level) error {
	p.merges = len(t.Below) > 0
	if err := p.top(t); err != nil {
		return err
	}
	for i, dir := range append([]int{t.Dir}, t.Below...) {
		l.dirs, l.sources = append(l.dirs, dir), append(l.sources, i)
	}
	return p.entries(l)
}

// top reads the top directory itself.
func (p *walker) top(t Tree) error {
	if !goodName(t.Name) {
		return fmt.Errorf("a tree cannot be named %q", t.Name)
	}
	var st unix.Stat_t
	if err := unix.Fstat(t.Dir, &st); err != nil {
		return err
	}
	// An opaque top directory has no meaning.
	_, mode, err := attrs(t.Dir, &st)
	if err != nil {
		return p.at("", err)
	}
	m, err := p.meta(0, &st, mode)
	if err != nil {
		return p.at("", err)
	}
	return p.out.tree(t.Name, m)
}

// entries reads the entries of a directory, and its end.
func (p *walker) entries(l level) error {
	seen := map[string]bool{}
	for i, dir := range l.dirs {
		err := beneath.Names(dir, func(name string) error {
			if len(l.dirs) > 1 {
				if seen[name] {
					return nil
				}
				seen[name] = true
			}
			return p.at(name, p.entry(l, i, name))
		})
		if err != nil {
			return err
		}
	}
	if err := p.gone(l); err != nil {
		return err
	}
	return p.out.up()
}

// at adds the path of the innermost entry to an error.
func (p *walker) at(name string, err error) error {
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

// entry reads the entry of one of the directories of a level.
func (p *walker) entry(l level, i int, name string) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	if p.o.Entries--; p.o.Entries < 0 {
		return refuse("it exceeds the maximum number of entries of the sandbox's disk")
	}
	if !goodName(name) {
		return refuse("its name is invalid")
	}
	dir := l.dirs[i]
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	switch kind := st.Mode & unix.S_IFMT; {
	case isWhiteout(&st):
		if p.merges {
			if hides, err := l.hides(name); !hides || err != nil {
				return err // the kernel would show it
			}
		}
		_, was, err := p.note(l, name, seen{mode: unix.S_IFCHR})
		if err != nil || was.is(unix.S_IFCHR) {
			return err
		}
		return p.out.whiteout(name)
	case kind == unix.S_IFDIR:
		return p.dir(l, i, name, &st)
	case kind == unix.S_IFCHR || kind == unix.S_IFBLK:
		return refuse("it is a device")
	}
	e, done, err := p.again(l, name, &st)
	if done || err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return p.file(l, i, name, &st, e)
	case unix.S_IFLNK:
		target, err := beneath.Readlink(dir, name, maxText)
		if err != nil {
			return err
		}
		m, err := p.meta(l.sources[i], &st, 0)
		if err != nil {
			return err
		}
		var sum uint64
		if p.now != nil {
			sum = maphash.String(p.now.seed, target)
		}
		if is, was, err := p.note(l, name, sees(m, &st, sum)); err != nil || is.same(was) {
			return err
		}
		return p.out.symlink(name, m, target, e)
	case unix.S_IFIFO, unix.S_IFSOCK:
		m, err := p.meta(l.sources[i], &st, st.Mode&0o7777)
		if err != nil {
			return err
		}
		if is, was, err := p.note(l, name, sees(m, &st, 0)); err != nil || is.same(was) {
			return err
		}
		rec := byte(recFifo)
		if st.Mode&unix.S_IFMT == unix.S_IFSOCK {
			rec = recSocket
		}
		return p.out.special(rec, name, m, e)
	}
	return refuse("unknown file type")
}

// again reports whether an entry was read before, under another name.
func (p *walker) again(l level, name string, st *unix.Stat_t) (e again, done bool, err error) {
	if st.Nlink < 2 {
		return "", false, nil
	}
	id := inode{uint64(st.Dev), st.Ino}
	if first, ok := p.links[id]; ok {
		if _, _, err := p.note(l, name, sees(meta{}, st, 0)); err != nil {
			return "", true, err
		}
		return "", true, p.out.hard(name, first)
	}
	p.links[id] = strings.Join(append(p.path[:len(p.path):len(p.path)], name), "/")
	return again(p.links[id]), false, nil
}

// deeper refuses a directory that is nested too deep.
func (p *walker) deeper(name string) error {
	length := 0
	for _, d := range p.path {
		length += len(d) + 1
	}
	if len(p.path) >= maxDepth || length+len(name)+1+maxName > maxText {
		return refuse("directories are nested deeper than %d levels or %d bytes", maxDepth, maxText)
	}
	return nil
}

func (p *walker) dir(in level, i int, name string, st *unix.Stat_t) error {
	if err := p.deeper(name); err != nil {
		return err
	}
	fd, done, err := openLooked(in.dirs[i], name, st, p.o.Lift)
	if err != nil {
		return err
	}
	defer done()
	opaque, mode, err := attrs(fd, st)
	if err != nil {
		return err
	}
	m, err := p.meta(in.sources[i], st, mode)
	if err != nil {
		return err
	}
	l := level{dirs: []int{fd}, sources: []int{in.sources[i]}, opaque: opaque}
	s := sees(m, st, 0)
	s.opaque = opaque
	is, was, err := p.note(in, name, s)
	if err != nil {
		return err
	}
	l.now = is
	same := false
	if was.is(unix.S_IFDIR) && was.opaque == opaque {
		// It merges with what it was, which hides what is below if it did.
		l.was, same, l.opaque = was, is.same(was), false
	} else if was != nil {
		l.opaque = true
	}
	if len(in.dirs) > 1 || len(in.under) > 0 {
		closeAll, err := l.descend(in, i, name)
		defer closeAll()
		if err != nil {
			return err
		}
	}
	if z, ok := p.out.(*lazy); ok && same {
		z.maybe(name, m)
	} else if err := p.out.dir(name, m, l.opaque); err != nil {
		return err
	}
	p.path = append(p.path, name)
	err = p.entries(l)
	p.path = p.path[:len(p.path)-1]
	return err
}

func (p *walker) file(l level, i int, name string, st *unix.Stat_t, e again) error {
	fd, done, err := openLooked(l.dirs[i], name, st, p.o.Lift)
	if err != nil {
		return err
	}
	defer done()
	_, mode, err := attrs(fd, st)
	if err != nil {
		return err
	}
	m, err := p.meta(l.sources[i], st, mode)
	if err != nil {
		return err
	}
	f := content{fd: fd, size: st.Size, again: e, source: l.sources[i], path: append(p.path[:len(p.path):len(p.path)], name)}
	if p.now != nil {
		var sum uint64
		if sum, f.data, err = p.sum(fd, st.Size); err != nil {
			return err
		}
		if is, was, err := p.note(l, name, sees(m, st, sum)); err != nil || is.same(was) {
			return err
		}
	}
	return p.out.file(name, m, f)
}

// meta is what an entry of a directory is, as seen inside.
func (p *walker) meta(source int, st *unix.Stat_t, mode uint32) (meta, error) {
	m := meta{mode: mode, uid: st.Uid, gid: st.Gid, sec: st.Mtim.Sec, nsec: uint32(st.Mtim.Nsec)}
	if source > 0 {
		return m, nil
	}
	var ok, gok bool
	m.uid, ok = p.o.ID(st.Uid)
	m.gid, gok = p.o.ID(st.Gid)
	if !ok || !gok {
		return m, refuse("it belongs to %d:%d, which are not ids of the sandbox", st.Uid, st.Gid)
	}
	return m, nil
}
