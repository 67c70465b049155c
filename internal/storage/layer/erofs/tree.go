package erofs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/storage/beneath"
)

const (
	// maxDepth is the maximum nesting of directories, each of which needs a descriptor.
	maxDepth = 512
	// maxTarget is the maximum length of a link's target, as in the kernel.
	maxTarget = 4095
)

// ErrDeep is the error of a tree that is nested too deeply.
var ErrDeep = errors.New("the tree has more than 512 nested directories")

// node is an inode.
type node struct {
	mode      uint32
	uid, gid  uint32
	links     uint32
	size      int64
	rdev      uint64
	sec, nsec int64
	target    string              // of a symbolic link
	data      []byte              // of a small file of a built tree
	open      func() (int, error) // of a file of a built tree
	xattrs    []byte              // with the header; empty if there are none
	children  []entry
	parent    *node
	firstName string // of a file: its first place, below its directory
	number    uint32
	nid       uint64 // where it is, in slots
	block     uint32 // its first block
	inline    bool   // its end is next to it
	blocks    int64  // whole blocks of data
}

type entry struct {
	name string
	node *node
}

func (n *node) isDir() bool { return n.mode&unix.S_IFMT == unix.S_IFDIR }

// inode identifies a file that has several names.
type inode struct{ dev, ino uint64 }

// reader reads a tree's names and modes.
type reader struct {
	ctx   context.Context
	dev   uint64
	files map[inode]*node
	info  Info
}

// read returns the tree of an open directory.
func read(ctx context.Context, dir int) (*node, Info, error) {
	r := &reader{ctx: ctx, files: map[inode]*node{}}
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return nil, r.info, err
	}
	r.dev = uint64(st.Dev)
	root := newNode(&st)
	root.parent = root
	var err error
	if root.xattrs, err = readXattrs(fdPath(dir)); err != nil {
		return nil, r.info, err
	}
	r.info.Entries++
	err = r.dir(root, dir, 0)
	return root, r.info, err
}

func newNode(st *unix.Stat_t) *node {
	n := &node{mode: st.Mode, uid: st.Uid, gid: st.Gid, links: 1, rdev: uint64(st.Rdev), sec: st.Mtim.Sec, nsec: st.Mtim.Nsec}
	if n.isDir() {
		n.links = 2
	}
	return n
}

// dir reads what is in a directory.
func (r *reader) dir(n *node, fd, depth int) error {
	if depth > maxDepth {
		return ErrDeep
	}
	if err := r.ctx.Err(); err != nil {
		return err
	}
	err := beneath.Names(fd, func(name string) error {
		e := entry{name: name}
		var err error
		if e.node, err = r.entry(n, fd, name); err != nil {
			return fmt.Errorf("%.200q: %w", name, err)
		}
		n.children = append(n.children, e)
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(n.children, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	for _, e := range n.children {
		if !e.node.isDir() {
			continue
		}
		sub, err := beneath.OpenDir(fd, e.name)
		if err != nil {
			return fmt.Errorf("%.200q: %w", e.name, err)
		}
		err = r.dir(e.node, sub, depth+1)
		unix.Close(sub)
		if err != nil {
			return fmt.Errorf("%.200q: %w", e.name, err)
		}
	}
	return nil
}

// entry reads one entry of a directory.
func (r *reader) entry(parent *node, dir int, name string) (*node, error) {
	st, err := beneath.Stat(dir, name)
	if err != nil {
		return nil, err
	}
	if uint64(st.Dev) != r.dev {
		return nil, errors.New("it is on another file system")
	}
	id := inode{uint64(st.Dev), st.Ino}
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if st.Nlink > 1 && !isDir {
		if n := r.files[id]; n != nil {
			n.links++
			return n, nil
		}
	}
	n := newNode(&st)
	n.parent, n.firstName = parent, name
	r.info.Entries++
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		parent.links++
	case unix.S_IFREG:
		n.size = st.Size
		r.info.Bytes += st.Size
	case unix.S_IFLNK:
		if n.target, err = beneath.Readlink(dir, name, maxTarget); err != nil {
			return nil, err
		}
		n.size = int64(len(n.target))
	}
	if n.xattrs, err = readXattrs(fdPath(dir) + "/" + name); err != nil {
		return nil, err
	}
	if st.Nlink > 1 && !isDir {
		r.files[id] = n
	}
	return n, nil
}
