package erofs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Meta is what every entry of a built tree has.
type Meta struct {
	// Mode has the type of the entry; a method of Dir that makes one type adds it.
	Mode     uint32
	UID, GID uint32
	// Sec and Nsec are the time of the last modification.
	Sec, Nsec int64
	// Attr and Value are an extended attribute of the class user; "" for none.
	Attr, Value string
}

// Builder makes a tree of entries that its caller describes, instead of those of a directory. It is used by one
// goroutine.
type Builder struct{ tree Tree }

// NewBuilder begins a tree.
func NewBuilder(m Meta) *Builder {
	m.Mode |= unix.S_IFDIR
	root := m.node()
	root.parent = root
	return &Builder{Tree{root: root, info: Info{Entries: 1}}}
}

func (m Meta) node() *node {
	n := newNode(&unix.Stat_t{Mode: m.Mode, Uid: m.UID, Gid: m.GID, Mtim: unix.Timespec{Sec: m.Sec, Nsec: m.Nsec}})
	if rest, ok := strings.CutPrefix(m.Attr, "user."); ok {
		n.xattrs = appendXattr(make([]byte, xattrHeader), 1, rest, []byte(m.Value))
	}
	return n
}

// Root is the top directory.
func (b *Builder) Root() Dir { return Dir{b, b.tree.root} }

// Info describes what was added. Image is 0 until it was written.
func (b *Builder) Info() Info { return b.tree.info }

// Write writes the image to a file, which must be empty. It may be called once.
//
// Errors: those of the file system and of the functions that open files; an error for a file that has another size
// than was said, and for a name that was added twice.
func (b *Builder) Write(ctx context.Context, f *os.File) (Info, error) {
	if err := sortNames(b.tree.root); err != nil {
		return b.tree.info, err
	}
	return b.tree.write(ctx, f, -1)
}

func sortNames(n *node) error {
	slices.SortFunc(n.children, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	for i, e := range n.children {
		if i > 0 && e.name == n.children[i-1].name {
			return fmt.Errorf("%.200q was added twice", e.name)
		}
		if e.node.isDir() {
			if err := sortNames(e.node); err != nil {
				return err
			}
		}
	}
	return nil
}

// Dir is a directory of a built tree.
type Dir struct {
	b *Builder
	n *node
}

// Entry is another entry of a built tree.
type Entry struct{ n *node }

func (d Dir) add(name string, n *node) Entry {
	n.parent, n.firstName = d.n, name
	d.n.children = append(d.n.children, entry{name, n})
	d.b.tree.info.Entries++
	return Entry{n}
}

// Dir adds a directory.
func (d Dir) Dir(name string, m Meta) Dir {
	m.Mode |= unix.S_IFDIR
	d.n.links++
	return Dir{d.b, d.add(name, m.node()).n}
}

// File adds a regular file. open opens it for reading when the image is written.
func (d Dir) File(name string, m Meta, size int64, open func() (int, error)) Entry {
	m.Mode |= unix.S_IFREG
	n := m.node()
	n.size, n.open = size, open
	d.b.tree.info.Bytes += size
	return d.add(name, n)
}

// Small adds a regular file with its content.
func (d Dir) Small(name string, m Meta, data []byte) Entry {
	m.Mode |= unix.S_IFREG
	n := m.node()
	n.size, n.data = int64(len(data)), data
	d.b.tree.info.Bytes += n.size
	return d.add(name, n)
}

// Symlink adds a symbolic link.
func (d Dir) Symlink(name string, m Meta, target string) (Entry, error) {
	if target == "" || len(target) > maxTarget {
		return Entry{}, errors.New("a link has no valid target")
	}
	m.Mode = unix.S_IFLNK | 0o777
	n := m.node()
	n.target, n.size = target, int64(len(target))
	return d.add(name, n), nil
}

// Special adds a fifo, a socket or a whiteout, which is the character device 0:0.
func (d Dir) Special(name string, m Meta) Entry { return d.add(name, m.node()) }

// Link adds another name of an entry.
func (d Dir) Link(name string, e Entry) {
	e.n.links++
	d.n.children = append(d.n.children, entry{name, e.n})
}
