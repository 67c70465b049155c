package erofs

import (
	"encoding/binary"
	"errors"
)

// window is how many blocks of inodes that have space left are tried before a new one is
// begun: the ends of files have all sizes.
const window = 24

// layout gives every inode and all data a place: the superblock, inodes with the ends of
// files, then whole blocks.
type layout struct {
	open  []space
	next  int64 // the first free byte after the inodes' blocks
	order []*node
}

// space is what is left at the end of a block.
type space struct{ at, free int64 }

// errLarge is the error of a tree that the format cannot hold.
var errLarge = errors.New("the tree is too large for an image")

// arrange gives every inode its place. The root is the first one: its number has 16 bits.
func (l *layout) arrange(root *node) (blocks int64, err error) {
	l.next = blockSize // the first block is the superblock's
	l.place(root)
	l.children(root)
	at := l.next >> blockBits
	for i, n := range l.order {
		n.number = uint32(i + 1)
		n.block = uint32(at)
		at += n.blocks
		if !n.inline && n.tail() > 0 {
			at++
		}
	}
	if at > 1<<32-1 || len(l.order) > 1<<31 {
		return 0, errLarge
	}
	return at, nil
}

func (l *layout) children(dir *node) {
	for _, e := range dir.children {
		if e.node.nid == 0 {
			l.place(e.node)
		}
	}
	for _, e := range dir.children {
		if e.node.isDir() {
			l.children(e.node)
		}
	}
}

// tail is the size of what follows the whole blocks of data.
func (n *node) tail() int64 { return n.size - n.blocks<<blockBits }

// place finds the place of an inode, its attributes and, if it fits, the end of its data: all
// in one block, unless the attributes need more.
func (l *layout) place(n *node) {
	if n.isDir() {
		n.size = n.dirSize()
	}
	n.blocks = n.size >> blockBits
	fixed := int64(inodeSize + len(n.xattrs))
	need := fixed
	if t := n.tail(); t > 0 && fixed+t <= blockSize {
		n.inline = true
		need += t
	}
	need = (need + slot - 1) &^ (slot - 1)
	l.order = append(l.order, n)
	if need > blockSize { // attributes over several blocks
		n.nid = uint64(l.next >> slotBits)
		l.next += (need + blockSize - 1) &^ (blockSize - 1)
		return
	}
	for i := range l.open {
		if s := &l.open[i]; s.free >= need {
			n.nid = uint64(s.at >> slotBits)
			s.at, s.free = s.at+need, s.free-need
			return
		}
	}
	n.nid = uint64(l.next >> slotBits)
	s := space{l.next + need, blockSize - need}
	l.next += blockSize
	if len(l.open) < window {
		l.open = append(l.open, s)
		return
	}
	// The fullest one is given up.
	least := 0
	for i := range l.open {
		if l.open[i].free < l.open[least].free {
			least = i
		}
	}
	if l.open[least].free < s.free {
		l.open[least] = s
	}
}

// direntry is an entry of a directory as the format has it.
type direntry struct {
	name string
	node *node
}

// entries are those of a directory with itself and its parent, sorted by their bytes.
func (n *node) entries() []direntry {
	out := make([]direntry, 0, len(n.children)+2)
	special := []direntry{{".", n}, {"..", n.parent}}
	for _, e := range n.children {
		for len(special) > 0 && special[0].name < e.name {
			out = append(out, special[0])
			special = special[1:]
		}
		out = append(out, direntry{e.name, e.node})
	}
	return append(out, special...)
}

// fill calls f with the entries of each block of a directory.
func fill(all []direntry, f func(block []direntry)) {
	for len(all) > 0 {
		n, used := 0, 0
		for n < len(all) && used+direntSize+len(all[n].name) <= blockSize {
			used += direntSize + len(all[n].name)
			n++
		}
		f(all[:n])
		all = all[n:]
	}
}

// dirSize is the size of a directory's data: its blocks are full but the last.
func (n *node) dirSize() (size int64) {
	last := int64(0)
	fill(n.entries(), func(block []direntry) {
		size += blockSize
		last = 0
		for _, e := range block {
			last += int64(direntSize + len(e.name))
		}
	})
	return size - blockSize + last
}

// dirData is the data of a directory.
func (n *node) dirData() []byte {
	out := make([]byte, 0, n.size+blockSize)
	fill(n.entries(), func(block []direntry) {
		for len(out)%blockSize != 0 {
			out = append(out, 0)
		}
		at := len(block) * direntSize
		for _, e := range block {
			out = binary.LittleEndian.AppendUint64(out, e.node.nid)
			out = binary.LittleEndian.AppendUint16(out, uint16(at))
			out = append(out, kind(e.node.mode), 0)
			at += len(e.name)
		}
		for _, e := range block {
			out = append(out, e.name...)
		}
	})
	return out
}
