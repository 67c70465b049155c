package erofs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/storage/beneath"
)

// copyBuffer is the size of reads from files and of writes of their blocks, in bytes.
const copyBuffer = 1 << 20

// Info describes a tree.
type Info struct {
	// Entries are its files and directories; a file with several names is one.
	Entries int
	// Bytes is the size of its files.
	Bytes int64
	// Image is the size of the image, in bytes.
	Image int64
}

// Tree is a directory tree whose names and modes were read.
type Tree struct {
	dir  string
	root *node
	info Info
}

// Read reads the names and modes of a directory tree.
//
// Errors: those of the file system; ErrDeep; an error for a tree that contains another file
// system.
func Read(ctx context.Context, dir string) (*Tree, error) {
	top, err := open(dir)
	if err != nil {
		return nil, err
	}
	defer unix.Close(top)
	root, info, err := read(ctx, top)
	return &Tree{dir, root, info}, err
}

func open(dir string) (int, error) {
	return unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
}

// Info describes the tree. Image is 0 until it was written.
func (t *Tree) Info() Info { return t.info }

// Write writes the image to a file, which must be empty. It may be called once.
//
// Errors: those of the file system, such as ENOSPC; an error for a tree that changed since Read.
func (t *Tree) Write(ctx context.Context, f *os.File) (Info, error) {
	top, err := open(t.dir)
	if err != nil {
		return t.info, err
	}
	defer unix.Close(top)
	return t.write(ctx, f, top)
}

// write writes the image. top is the directory of the tree, or -1 for a built one.
func (t *Tree) write(ctx context.Context, f *os.File, top int) (Info, error) {
	var l layout
	blocks, err := l.arrange(t.root)
	if err != nil {
		return t.info, err
	}
	t.info.Image = blocks << blockBits
	// Gaps between the parts read as zeros.
	if err := f.Truncate(t.info.Image); err != nil {
		return t.info, err
	}
	w := &writer{ctx: ctx, f: f, buf: make([]byte, copyBuffer), out: make([]byte, 0, copyBuffer)}
	if err := w.tree(t.root, top); err != nil {
		return t.info, err
	}
	if err := w.flush(); err != nil {
		return t.info, err
	}
	_, err = f.WriteAt(superblock(uint16(t.root.nid), uint64(len(l.order)), uint32(blocks)), 0)
	return t.info, err
}

// Write writes the tree of a directory as an image to a file, which must be empty.
func Write(ctx context.Context, f *os.File, dir string) (Info, error) {
	t, err := Read(ctx, dir)
	if err != nil {
		return Info{}, err
	}
	return t.Write(ctx, f)
}

// writer writes inodes where they belong, and data through a buffer.
type writer struct {
	ctx  context.Context
	f    *os.File
	buf  []byte // of reads
	out  []byte // what is written at outAt
	at   int64
	last []byte // an inode
	// apart is true once a file system could not share the blocks of a file with the image.
	apart bool
}

// tree writes the inode of a directory and all below it.
func (w *writer) tree(n *node, fd int) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if err := w.bytes(n, n.dirData()); err != nil {
		return err
	}
	for _, e := range n.children {
		c := e.node
		if c.isDir() || c.parent != n || c.firstName != e.name {
			continue // a further name of a file
		}
		if err := w.file(c, fd, e.name); err != nil {
			return fmt.Errorf("%.200q: %w", e.name, err)
		}
	}
	for _, e := range n.children {
		if !e.node.isDir() {
			continue
		}
		if err := w.sub(e.node, fd, e.name); err != nil {
			return fmt.Errorf("%.200q: %w", e.name, err)
		}
	}
	return nil
}

// sub is tree for a directory of another one.
func (w *writer) sub(n *node, in int, name string) error {
	if in < 0 {
		return w.tree(n, in)
	}
	fd, err := beneath.OpenDir(in, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return w.tree(n, fd)
}

// file writes what is no directory.
func (w *writer) file(n *node, dir int, name string) error {
	if n.mode&unix.S_IFMT != unix.S_IFREG {
		return w.bytes(n, []byte(n.target))
	}
	if n.size == 0 {
		return w.inode(n, nil)
	}
	if n.data != nil {
		return w.bytes(n, n.data)
	}
	open := n.open
	if open == nil {
		open = func() (int, error) { return beneath.Open(dir, name, unix.O_RDONLY) }
	}
	fd, err := open()
	if err != nil {
		return err
	}
	in := os.NewFile(uintptr(fd), name)
	defer in.Close()
	shared := w.share(in, n)
	if _, err := in.Seek(shared, io.SeekStart); err != nil {
		return err
	}
	left, at := n.size-shared, int64(n.block)<<blockBits+shared
	var tail []byte
	for left > 0 {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		part := w.buf[:min(left, copyBuffer)]
		if _, err := io.ReadFull(in, part); err != nil {
			return changed(err)
		}
		if left -= int64(len(part)); left == 0 && n.inline {
			cut := len(part) - int(n.tail())
			part, tail = part[:cut], part[cut:]
		}
		if err := w.data(part, at); err != nil {
			return err
		}
		at += int64(len(part))
	}
	var more [1]byte
	if k, err := in.Read(more[:]); k != 0 || err != io.EOF {
		return changed(err)
	}
	return w.inode(n, tail)
}

// share makes whole blocks of a file those of the image too, on a file system such as XFS or btrfs, and returns their number of
// bytes. What is not shared has to be copied.
func (w *writer) share(in *os.File, n *node) int64 {
	whole := n.blocks << blockBits
	if w.apart || whole == 0 {
		return 0
	}
	r := unix.FileCloneRange{Src_fd: int64(in.Fd()), Src_length: uint64(whole), Dest_offset: uint64(n.block) << blockBits}
	if err := unix.IoctlFileCloneRange(int(w.f.Fd()), &r); err != nil {
		w.apart = err != unix.EINVAL // which a file gets that has become shorter; copying it says so
		return 0
	}
	return whole
}

func changed(err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it changed while it was packed")
	}
	return err
}

// bytes writes an inode whose data is in memory.
func (w *writer) bytes(n *node, data []byte) error {
	if int64(len(data)) != n.size {
		return errors.New("it changed while it was packed")
	}
	whole := len(data)
	if n.inline {
		whole -= int(n.tail())
	}
	if err := w.data(data[:whole], int64(n.block)<<blockBits); err != nil {
		return err
	}
	return w.inode(n, data[whole:])
}

// inode writes an inode, its attributes and the end of its data.
func (w *writer) inode(n *node, tail []byte) error {
	var fixed [inodeSize]byte
	n.put(fixed[:])
	w.last = append(append(append(w.last[:0], fixed[:]...), n.xattrs...), tail...)
	_, err := w.f.WriteAt(w.last, int64(n.nid)<<slotBits)
	return err
}

// data writes whole blocks, which mostly follow each other, through a buffer.
func (w *writer) data(b []byte, at int64) error {
	for len(b) > 0 {
		end := w.at + int64(len(w.out))
		// The rest of a block that is not full is a gap of zeros.
		if gap := at - end; len(w.out) > 0 && gap >= 0 && gap < blockSize && len(w.out)+int(gap) < cap(w.out) {
			w.out = w.out[:len(w.out)+int(gap)]
			clear(w.out[len(w.out)-int(gap):])
		} else if err := w.flush(); err != nil {
			return err
		}
		if len(w.out) == 0 {
			w.at = at
		}
		k := min(len(b), cap(w.out)-len(w.out))
		w.out = append(w.out, b[:k]...)
		b, at = b[k:], at+int64(k)
	}
	return nil
}

func (w *writer) flush() error {
	if len(w.out) == 0 {
		return nil
	}
	_, err := w.f.WriteAt(w.out, w.at)
	w.out = w.out[:0]
	return err
}
