package upper

import (
	"bufio"
	"context"
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/storage/beneath"
)

// Between is what differs between two directories: the root of a sandbox whose overlay another program has mounted, and the same root
// in which nothing was written. Neither may change while it is saved.
type Between struct {
	Name string
	// Now and Was are readable descriptors. A file is the same in both if its type, owner, mode, size and times are: no program can set
	// the time of an inode's last change, and an overlay makes a new inode before the first write to a file of a layer.
	Now, Was int
	// Hidden are the paths at which something else is mounted, without a slash at their start. They are left out.
	Hidden map[string]bool
}

// WriteBetween saves a tree that [Reader.Over] restores over Was. Its errors are those of Write.
func WriteBetween(ctx context.Context, w io.Writer, b Between, o Options) error {
	p := &packer{ctx: ctx, w: bufio.NewWriterSize(w, 256<<10), bytes: o.Bytes, buf: make([]byte, 256<<10)}
	d := &differ{walker: &walker{ctx: ctx, o: &o, out: &lazy{out: p}, links: map[inode]string{}}, hidden: b.Hidden}
	p.w.WriteString(magic)
	var st unix.Stat_t
	if err := unix.Fstat(b.Now, &st); err != nil {
		return err
	}
	m, err := d.open(b.Now, &st)
	if err != nil {
		return d.at("", err)
	}
	if err := d.out.tree(b.Name, m); err != nil {
		return err
	}
	if err := d.both(b.Now, b.Was); err != nil {
		return err
	}
	p.w.WriteByte(recEnd)
	return p.w.Flush()
}

// differ reads two trees at the same time.
type differ struct {
	*walker
	hidden map[string]bool
}

// both reads a directory of both trees, and its end. was is -1 if there is none.
func (d *differ) both(now, was int) error {
	err := beneath.Names(now, func(name string) error { return d.at(name, d.entry(now, was, name)) })
	if err == nil && was >= 0 {
		err = beneath.Names(was, func(name string) error { return d.at(name, d.gone(now, name)) })
	}
	if err != nil {
		return err
	}
	return d.out.up()
}

// full is the path of an entry of the directory that is being read.
func (d *differ) full(name string) string {
	return strings.Join(append(d.path[:len(d.path):len(d.path)], name), "/")
}

// count counts an entry that is saved.
func (d *differ) count() error {
	if d.o.Entries--; d.o.Entries < 0 {
		return refuse("it exceeds the maximum number of entries of the sandbox's disk")
	}
	return nil
}

// gone saves that an entry is not there any more.
func (d *differ) gone(now int, name string) error {
	if _, err := beneath.Stat(now, name); err != unix.ENOENT || d.hidden[d.full(name)] {
		return err
	}
	if err := d.count(); err != nil {
		return err
	}
	return d.out.whiteout(name)
}

// entry reads an entry.
func (d *differ) entry(now, was int, name string) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	if d.hidden[d.full(name)] {
		return nil
	}
	st, err := beneath.Stat(now, name)
	if err != nil {
		return err
	}
	var old *unix.Stat_t
	if was >= 0 {
		o, err := beneath.Stat(was, name)
		if err != nil && err != unix.ENOENT {
			return err
		}
		if err == nil && o.Mode&unix.S_IFMT == st.Mode&unix.S_IFMT {
			old = &o
		}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return d.dir(now, was, name, &st, old)
	}
	if old != nil && unchanged(&st, old) && st.Size == old.Size && st.Rdev == old.Rdev && st.Ctim == old.Ctim {
		return nil
	}
	if err := d.count(); err != nil {
		return err
	}
	if st.Nlink > 1 {
		id := inode{uint64(st.Dev), st.Ino}
		if first, ok := d.links[id]; ok {
			return d.out.hard(name, first)
		}
		d.links[id] = d.full(name)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		fd, done, err := openLooked(now, name, &st, false)
		if err != nil {
			return err
		}
		defer done()
		m, err := d.open(fd, &st)
		if err != nil {
			return err
		}
		return d.out.file(name, m, content{fd: fd, size: st.Size})
	case unix.S_IFLNK:
		target, err := beneath.Readlink(now, name, maxText)
		if err != nil {
			return err
		}
		m, err := d.meta(0, &st, 0)
		if err != nil {
			return err
		}
		return d.out.symlink(name, m, target, "")
	case unix.S_IFIFO, unix.S_IFSOCK:
		m, err := d.meta(0, &st, st.Mode&0o7777)
		if err != nil {
			return err
		}
		rec := byte(recFifo)
		if st.Mode&unix.S_IFMT == unix.S_IFSOCK {
			rec = recSocket
		}
		return d.out.special(rec, name, m, "")
	}
	return refuse("it is a device")
}

// unchanged compares what every entry has, and what restoring a directory sets.
func unchanged(a, b *unix.Stat_t) bool {
	return a.Mode == b.Mode && a.Uid == b.Uid && a.Gid == b.Gid && a.Mtim == b.Mtim
}

// dir reads a directory. old is what it was; nil if it was none.
func (d *differ) dir(in, was int, name string, st, old *unix.Stat_t) error {
	if err := d.deeper(name); err != nil {
		return err
	}
	now, done, err := openLooked(in, name, st, false)
	if err != nil {
		return err
	}
	defer done()
	m, err := d.open(now, st)
	if err != nil {
		return err
	}
	before := -1
	if old != nil {
		if before, err = beneath.OpenDir(was, name); err != nil {
			return err
		}
		defer unix.Close(before)
	}
	if old != nil && unchanged(st, old) {
		d.out.(*lazy).maybe(name, m)
	} else {
		if err := d.count(); err != nil {
			return err
		}
		if err := d.out.dir(name, m, false); err != nil {
			return err
		}
	}
	d.path = append(d.path, name)
	err = d.both(now, before)
	d.path = d.path[:len(d.path)-1]
	return err
}

// open describes an open file or directory. Unlike in the directories of an overlay, no extended attribute means anything.
func (d *differ) open(fd int, st *unix.Stat_t) (meta, error) {
	mode := st.Mode & 0o7777
	if _, err := unix.Fgetxattr(fd, accessList, nil); err == nil {
		if mode, err = withoutList(fd, mode); err != nil {
			return meta{}, err
		}
	}
	return d.meta(0, st, mode)
}
