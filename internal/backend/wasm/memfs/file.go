package memfs

import (
	"io/fs"

	experimental "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// File is an open file or directory. It must be closed.
type File struct {
	tree   *Tree
	node   *node
	append bool
	read   bool
	write  bool
}

// Open opens a file or a directory, and with O_CREAT makes a file.
func (t *Tree) Open(p string, flag experimental.Oflag, mode fs.FileMode) (*File, experimental.Errno) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, errno := t.walk(p, flag&experimental.O_NOFOLLOW == 0)
	if errno != 0 {
		return nil, errno
	}
	access := flag & (experimental.O_RDWR | experimental.O_WRONLY)
	f := &File{tree: t, append: flag&experimental.O_APPEND != 0, read: access != experimental.O_WRONLY, write: access != experimental.O_RDONLY}
	if at.node == nil {
		if flag&experimental.O_CREAT == 0 || flag&experimental.O_DIRECTORY != 0 {
			return nil, experimental.ENOENT
		}
		at.node = t.node(mode.Perm())
		if errno := t.link(at, at.node); errno != 0 {
			return nil, errno
		}
	} else if flag&experimental.O_CREAT != 0 && flag&experimental.O_EXCL != 0 {
		return nil, experimental.EEXIST
	}
	switch dir := at.node.mode.IsDir(); {
	case at.node.mode&fs.ModeSymlink != 0:
		return nil, experimental.ELOOP
	case dir && (f.write || flag&experimental.O_TRUNC != 0):
		return nil, experimental.EISDIR
	case !dir && flag&experimental.O_DIRECTORY != 0:
		return nil, experimental.ENOTDIR
	case f.write && flag&experimental.O_TRUNC != 0:
		t.release(at.node.truncate(0))
	}
	f.node = at.node
	f.node.opens++
	return f, 0
}

// Close closes the file. It must be called once.
func (f *File) Close() {
	f.tree.mu.Lock()
	defer f.tree.mu.Unlock()
	f.node.opens--
	f.tree.free(f.node)
}

// Stat describes the file.
func (f *File) Stat() sys.Stat_t {
	f.tree.mu.Lock()
	defer f.tree.mu.Unlock()
	return f.node.stat()
}

// ReadAt reads from an offset; 0 bytes at the end.
func (f *File) ReadAt(p []byte, off int64) (int, experimental.Errno) {
	f.tree.mu.Lock()
	defer f.tree.mu.Unlock()
	switch {
	case f.node.mode.IsDir():
		return 0, experimental.EISDIR
	case !f.read:
		return 0, experimental.EBADF
	case off < 0:
		return 0, experimental.EINVAL
	}
	return f.node.readAt(p, off), 0
}

// WriteAt writes at an offset, or at the end of a file that was opened to append. Fewer bytes
// than p has, and EIO, mean that the disk or the memory limit is reached.
func (f *File) WriteAt(p []byte, off int64) (int, experimental.Errno) {
	f.tree.mu.Lock()
	defer f.tree.mu.Unlock()
	if f.append {
		off = f.node.size
	}
	switch {
	case !f.write:
		return 0, experimental.EBADF
	case off < 0 || off > maxSize-int64(len(p)):
		return 0, experimental.EINVAL
	}
	n := f.node.writeAt(p, off, f.tree.take)
	if n < len(p) {
		return n, experimental.EIO
	}
	return n, 0
}

// Truncate sets the size.
func (f *File) Truncate(size int64) experimental.Errno {
	f.tree.mu.Lock()
	defer f.tree.mu.Unlock()
	switch {
	case !f.write:
		return experimental.EBADF
	case size < 0 || size > maxSize:
		return experimental.EINVAL
	}
	f.tree.release(f.node.truncate(size))
	return 0
}

// List lists the directory by name.
func (f *File) List() ([]Entry, experimental.Errno) {
	f.tree.mu.Lock()
	defer f.tree.mu.Unlock()
	if !f.node.mode.IsDir() {
		return nil, experimental.ENOTDIR
	}
	return f.node.list(), 0
}

// Utimens sets times; experimental.UTIME_OMIT leaves one.
func (f *File) Utimens(atime, mtime int64) experimental.Errno {
	f.tree.mu.Lock()
	defer f.tree.mu.Unlock()
	f.node.setTimes(atime, mtime)
	return 0
}
