package memfs

import (
	"io/fs"
	"time"

	"github.com/tetratelabs/wazero/sys"
)

// blockSize is the unit in which the content of a file is allocated.
const blockSize = 4 << 10

// pointerSize is what each block of a file counts besides its content, also that of a hole.
const pointerSize = 24

// entrySize is what an entry without content counts, in bytes.
const entrySize = 512

// node is a file, a directory or a symbolic link. The lock of its tree guards it.
type node struct {
	ino          sys.Inode
	mode         fs.FileMode
	atime, mtime int64 // nanoseconds since 1970
	size         int64
	blocks       [][]byte         // of a file; nil is a hole
	children     map[string]*node // of a directory
	target       string           // of a symbolic link
	opens        int              // open files
	removed      bool             // it has no name
}

func (n *node) stat() sys.Stat_t {
	s := sys.Stat_t{Ino: n.ino, Mode: n.mode, Nlink: 1, Size: n.size, Atim: n.atime, Mtim: n.mtime, Ctim: n.mtime}
	if n.mode&fs.ModeSymlink != 0 {
		s.Size = int64(len(n.target))
	}
	return s
}

// allocated returns the bytes of the blocks.
func (n *node) allocated() (sum int64) {
	for _, b := range n.blocks {
		sum += int64(len(b))
	}
	return sum
}

// readAt copies content from an offset and returns the number of bytes; 0 at the end.
func (n *node) readAt(p []byte, off int64) int {
	if off >= n.size {
		return 0
	}
	p = p[:min(int64(len(p)), n.size-off)]
	for rest := p; len(rest) > 0; {
		i, at := off/blockSize, off%blockSize
		c := min(len(rest), int(blockSize-at))
		if i < int64(len(n.blocks)) && n.blocks[i] != nil {
			copy(rest[:c], n.blocks[i][at:])
		} else {
			clear(rest[:c])
		}
		rest, off = rest[c:], off+int64(c)
	}
	return len(p)
}

// writeAt writes content, and allocates blocks with take. It returns the number of bytes that
// were written before take refused.
func (n *node) writeAt(p []byte, off int64, take func(int64) bool) int {
	written := 0
	for len(p) > 0 {
		i, at := off/blockSize, off%blockSize
		if grow := i + 1 - int64(len(n.blocks)); grow > 0 {
			if !take(pointerSize * grow) { // a sparse file has them too
				break
			}
			n.blocks = append(n.blocks, make([][]byte, grow)...)
		}
		if n.blocks[i] == nil {
			if !take(blockSize) {
				break
			}
			n.blocks[i] = make([]byte, blockSize)
		}
		c := copy(n.blocks[i][at:], p)
		p, off, written = p[c:], off+int64(c), written+c
		n.size = max(n.size, off)
	}
	if written > 0 {
		n.mtime = now()
	}
	return written
}

// truncate sets the size, and returns the bytes that were freed.
func (n *node) truncate(size int64) (freed int64) {
	keep := (size + blockSize - 1) / blockSize
	if keep < int64(len(n.blocks)) {
		for _, b := range n.blocks[keep:] {
			freed += int64(len(b))
		}
		freed += pointerSize * (int64(len(n.blocks)) - keep)
		n.blocks = append([][]byte(nil), n.blocks[:keep]...)
	}
	if at := size % blockSize; at != 0 && keep <= int64(len(n.blocks)) && keep > 0 && n.blocks[keep-1] != nil {
		clear(n.blocks[keep-1][at:])
	}
	n.size, n.mtime = size, now()
	return freed
}

// held returns what the content of a node counts.
func (n *node) held() int64 { return n.allocated() + pointerSize*int64(len(n.blocks)) }

func now() int64 { return time.Now().UnixNano() }
