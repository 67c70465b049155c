package erofs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Mount is a directory of a merged tree: Dirs, the top one first, as in an overlay whose whiteouts are character devices.
type Mount struct {
	Target string
	Dirs   []string
}

// Merge builds the tree of a directory, with what is mounted in it. It has modes, owners and times, and no attributes, devices or
// sockets. What another file system has below one of the directories is left out. The files are read by [Builder.Write].
func Merge(ctx context.Context, root string, mounts []Mount) (*Builder, error) {
	top, err := look(root)
	if err != nil {
		return nil, err
	}
	b := NewBuilder(top.meta())
	m := &merger{ctx: ctx, files: map[inode]Entry{}}
	if err := m.add(b.Root(), []string{root}); err != nil {
		return nil, err
	}
	for _, mount := range mounts {
		d := b.Root()
		for name := range strings.SplitSeq(strings.Trim(mount.Target, "/"), "/") {
			d = d.reach(name)
		}
		d.n.children = nil // covered
		if err := m.add(d, mount.Dirs); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// reach returns a directory of a directory, which it adds if there is none.
func (d Dir) reach(name string) Dir {
	for _, e := range d.n.children {
		if e.name == name && e.node.isDir() {
			return Dir{d.b, e.node}
		}
	}
	d.n.children = slices.DeleteFunc(d.n.children, func(e entry) bool { return e.name == name })
	return d.Dir(name, Meta{Mode: 0o755})
}

// merger adds directories to a built tree.
type merger struct {
	ctx   context.Context
	files map[inode]Entry // with several names
}

// found is a file of a directory that is merged.
type found struct {
	path string
	st   unix.Statx_t
}

func look(path string) (found, error) {
	f := found{path: path}
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &f.st)
	if err != nil {
		return f, &fs.PathError{Op: "statx", Path: path, Err: err}
	}
	return f, nil
}

func (f found) kind() uint32 { return uint32(f.st.Mode) & unix.S_IFMT }

func (f found) device() uint64 { return unix.Mkdev(f.st.Dev_major, f.st.Dev_minor) }

func (f found) meta() Meta {
	return Meta{Mode: uint32(f.st.Mode), UID: f.st.Uid, GID: f.st.Gid, Sec: f.st.Mtime.Sec, Nsec: int64(f.st.Mtime.Nsec)}
}

// sameMount reports whether two files are of one mount.
func (f found) sameMount(o found) bool {
	if f.st.Mask&o.st.Mask&unix.STATX_MNT_ID != 0 {
		return f.st.Mnt_id == o.st.Mnt_id
	}
	return f.device() == o.device()
}

// add adds what directories contain, the top one first.
func (m *merger) add(d Dir, dirs []string) error {
	var tops []found
	for _, dir := range dirs {
		f, err := look(dir)
		if err != nil {
			return err
		}
		tops = append(tops, f)
	}
	return m.dir(d, dirs, tops, 0)
}

// dir adds what directories of the mounts of tops contain.
func (m *merger) dir(d Dir, dirs []string, tops []found, depth int) error {
	if depth > maxDepth {
		return ErrDeep
	}
	if err := m.ctx.Err(); err != nil {
		return err
	}
	type below struct {
		first found
		dirs  []string
		tops  []found
		done  bool // a lower one is hidden
	}
	names := map[string]*below{}
	var order []string
	for i, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			f, err := look(filepath.Join(dir, e.Name()))
			if errors.Is(err, fs.ErrNotExist) {
				continue // removed since
			}
			if err != nil {
				return err
			}
			n := names[e.Name()]
			if n == nil {
				n = &below{first: f}
				names[e.Name()] = n
				order = append(order, e.Name())
			} else if n.done || f.kind() != unix.S_IFDIR {
				continue
			}
			if f.kind() != unix.S_IFDIR {
				n.done = true
			} else if f.sameMount(tops[i]) {
				n.dirs, n.tops = append(n.dirs, f.path), append(n.tops, tops[i])
			}
		}
	}
	slices.Sort(order)
	for _, name := range order {
		n := names[name]
		if n.first.kind() == unix.S_IFDIR {
			if err := m.dir(d.Dir(name, n.first.meta()), n.dirs, n.tops, depth+1); err != nil {
				return err
			}
			continue
		}
		if err := m.file(d, name, n.first); err != nil {
			return fmt.Errorf("%.200q: %w", n.first.path, err)
		}
	}
	return nil
}

// file adds a regular file or a link; others are left out.
func (m *merger) file(d Dir, name string, f found) error {
	switch f.kind() {
	case unix.S_IFLNK:
		target, err := os.Readlink(f.path)
		if err != nil {
			return err
		}
		_, err = d.Symlink(name, f.meta(), target)
		return err
	case unix.S_IFREG:
		id := inode{f.device(), f.st.Ino}
		if e, ok := m.files[id]; ok && f.st.Nlink > 1 {
			d.Link(name, e)
			return nil
		}
		e := d.File(name, f.meta(), int64(f.st.Size), func() (int, error) {
			return unix.Open(f.path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		})
		if f.st.Nlink > 1 {
			m.files[id] = e
		}
	}
	return nil
}
