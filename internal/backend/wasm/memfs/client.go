package memfs

import (
	"bufio"
	"encoding/gob"
	"io"
	"io/fs"
	"sync"

	experimental "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// Client is the file system of a tree in another process. After the connection has ended every
// call fails with EIO.
type Client struct {
	experimental.UnimplementedFS

	mu     sync.Mutex
	out    *bufio.Writer
	enc    *gob.Encoder
	dec    *gob.Decoder
	failed bool
}

// NewClient returns a client on a connection that [Serve] answers.
func NewClient(conn io.ReadWriter) *Client {
	out := bufio.NewWriter(conn)
	return &Client{out: out, enc: gob.NewEncoder(out), dec: gob.NewDecoder(bufio.NewReader(conn))}
}

func (c *Client) call(r request) (out response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = c.failed || c.enc.Encode(&r) != nil || c.out.Flush() != nil || c.dec.Decode(&out) != nil
	if c.failed {
		return response{Errno: experimental.EIO}
	}
	return out
}

// TakeMemory takes n bytes of the budget, or returns them if n is negative. It returns false if
// the budget does not have them.
func (c *Client) TakeMemory(n int64) bool {
	return c.call(request{Op: opMemory, Size: n}).Errno == 0
}

// OpenFile implements sys.FS.
func (c *Client) OpenFile(path string, flag experimental.Oflag, mode fs.FileMode) (experimental.File, experimental.Errno) {
	r := c.call(request{Op: opOpen, Path: path, Flag: uint32(flag), Mode: uint32(mode)})
	if r.Errno != 0 {
		return nil, r.Errno
	}
	return &clientFile{position[int64]{c: c, handle: r.Handle, append: flag&experimental.O_APPEND != 0, dir: r.Stat.Mode.IsDir(), ino: r.Stat.Ino}}, 0
}

// Stat implements sys.FS.
func (c *Client) Stat(path string) (sys.Stat_t, experimental.Errno) {
	r := c.call(request{Op: opStat, Path: path})
	return r.Stat, r.Errno
}

// Lstat implements sys.FS.
func (c *Client) Lstat(path string) (sys.Stat_t, experimental.Errno) {
	r := c.call(request{Op: opLstat, Path: path})
	return r.Stat, r.Errno
}

// Mkdir implements sys.FS.
func (c *Client) Mkdir(path string, mode fs.FileMode) experimental.Errno {
	return c.call(request{Op: opMkdir, Path: path, Mode: uint32(mode)}).Errno
}

// Chmod implements sys.FS.
func (c *Client) Chmod(path string, mode fs.FileMode) experimental.Errno {
	return c.call(request{Op: opChmod, Path: path, Mode: uint32(mode)}).Errno
}

// Rename implements sys.FS.
func (c *Client) Rename(from, to string) experimental.Errno {
	return c.call(request{Op: opRename, Path: from, Second: to}).Errno
}

// Rmdir implements sys.FS.
func (c *Client) Rmdir(path string) experimental.Errno {
	return c.call(request{Op: opRmdir, Path: path}).Errno
}

// Unlink implements sys.FS.
func (c *Client) Unlink(path string) experimental.Errno {
	return c.call(request{Op: opUnlink, Path: path}).Errno
}

// Symlink implements sys.FS.
func (c *Client) Symlink(target, path string) experimental.Errno {
	return c.call(request{Op: opSymlink, Path: target, Second: path}).Errno
}

// Readlink implements sys.FS.
func (c *Client) Readlink(path string) (string, experimental.Errno) {
	r := c.call(request{Op: opReadlink, Path: path})
	return r.Text, r.Errno
}

// Utimens implements sys.FS.
func (c *Client) Utimens(path string, atime, mtime int64) experimental.Errno {
	return c.call(request{Op: opUtimens, Path: path, Offset: atime, Size: mtime}).Errno
}

// clientFile is an open file of a client.
type clientFile struct {
	position[int64]
}

// position is an open file that has a Seek method. The type of offsets is a parameter because vet
// wants every method Seek with an int64 to be that of io.Seeker, which wazero's is not.
type position[Offset ~int64] struct {
	experimental.UnimplementedFile

	c           *Client
	handle      int
	ino         sys.Inode
	append, dir bool
	offset      Offset
	entries     []Entry // those that Readdir has not returned
	listed      bool
}

func (f *position[Offset]) call(r request) response {
	r.Handle = f.handle
	return f.c.call(r)
}

// Seek implements sys.File.
func (f *position[Offset]) Seek(offset Offset, whence int) (Offset, experimental.Errno) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += f.offset
	case io.SeekEnd:
		st := f.call(request{Op: opFileStat})
		if st.Errno != 0 {
			return 0, st.Errno
		}
		offset += Offset(st.Stat.Size)
	default:
		return 0, experimental.EINVAL
	}
	if offset < 0 || f.dir && offset != 0 {
		return 0, experimental.EINVAL
	}
	if f.offset = offset; f.dir {
		f.listed, f.entries = false, nil
	}
	return offset, 0
}

func (f *clientFile) Ino() (sys.Inode, experimental.Errno) { return f.ino, 0 }
func (f *clientFile) IsDir() (bool, experimental.Errno)    { return f.dir, 0 }
func (f *clientFile) IsAppend() bool                       { return f.append }
func (f *clientFile) Sync() experimental.Errno             { return 0 }
func (f *clientFile) Datasync() experimental.Errno         { return 0 }
func (f *clientFile) Close() experimental.Errno            { return f.call(request{Op: opClose}).Errno }
func (f *clientFile) Truncate(n int64) experimental.Errno {
	return f.call(request{Op: opTruncate, Size: n}).Errno
}
func (f *clientFile) SetAppend(on bool) experimental.Errno { f.append = on; return 0 }
func (f *clientFile) Utimens(a, m int64) experimental.Errno {
	return f.call(request{Op: opFileUtimens, Offset: a, Size: m}).Errno
}

func (f *clientFile) Stat() (sys.Stat_t, experimental.Errno) {
	r := f.call(request{Op: opFileStat})
	return r.Stat, r.Errno
}

func (f *clientFile) Read(p []byte) (int, experimental.Errno) {
	n, errno := f.Pread(p, f.offset)
	f.offset += int64(n)
	return n, errno
}

func (f *clientFile) Pread(p []byte, off int64) (n int, errno experimental.Errno) {
	for n < len(p) {
		r := f.call(request{Op: opRead, Offset: off + int64(n), Size: min(int64(len(p)-n), maxData)})
		if r.Errno != 0 || len(r.Data) == 0 {
			return n, r.Errno
		}
		n += copy(p[n:], r.Data)
	}
	return n, 0
}

func (f *clientFile) Write(p []byte) (int, experimental.Errno) {
	if f.append {
		st, errno := f.Stat()
		if errno != 0 {
			return 0, errno
		}
		f.offset = st.Size
	}
	n, errno := f.Pwrite(p, f.offset)
	f.offset += int64(n)
	return n, errno
}

func (f *clientFile) Pwrite(p []byte, off int64) (n int, errno experimental.Errno) {
	for n < len(p) {
		r := f.call(request{Op: opWrite, Offset: off + int64(n), Data: p[n:min(len(p), n+maxData)]})
		if n += int(r.N); r.Errno != 0 {
			return n, r.Errno
		}
	}
	return n, 0
}

func (f *clientFile) Readdir(n int) ([]experimental.Dirent, experimental.Errno) {
	if !f.listed {
		r := f.call(request{Op: opList})
		if r.Errno != 0 {
			return nil, r.Errno
		}
		f.entries, f.listed = r.Entries, true
	}
	some := f.entries
	if n > 0 && n < len(some) {
		some = some[:n]
	}
	f.entries = f.entries[len(some):]
	out := make([]experimental.Dirent, len(some))
	for i, e := range some {
		out[i] = experimental.Dirent{Ino: e.Stat.Ino, Name: e.Name, Type: e.Stat.Mode.Type()}
	}
	return out, 0
}

var _ experimental.FS = (*Client)(nil)
