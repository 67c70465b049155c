package memfs

import (
	"bufio"
	"encoding/gob"
	"io"
	"io/fs"

	experimental "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// operation is what a request asks for.
type operation uint8

const (
	opStat operation = iota + 1
	opLstat
	opMkdir
	opChmod
	opRename
	opRmdir
	opUnlink
	opSymlink
	opReadlink
	opUtimens
	opOpen
	// The following have a handle.
	opClose
	opFileStat
	opRead
	opWrite
	opTruncate
	opList
	opFileUtimens
	// opMemory takes memory, or returns it if the number is negative.
	opMemory
)

// request is a message of a client.
type request struct {
	Op           operation
	Handle       int
	Path, Second string
	Flag         uint32
	Mode         uint32
	Offset, Size int64 // for opUtimens: the times
	Data         []byte
}

// response answers it.
type response struct {
	Errno   experimental.Errno
	Handle  int
	N       int64
	Data    []byte
	Stat    sys.Stat_t
	Entries []Entry
	Text    string
}

const (
	// maxData is the maximum number of bytes that one message reads or writes.
	maxData = 256 << 10
	// maxMessage is the maximum size of a request.
	maxMessage = maxData + 4*maxPath
	// maxHandles is the maximum number of files that a client has open.
	maxHandles = 1024
)

// Serve answers a client until its connection ends, and releases what it held. It does not close
// the connection.
func Serve(conn io.ReadWriter, tree *Tree) {
	s := &server{tree: tree, files: map[int]*File{}}
	defer s.close()
	limited := &io.LimitedReader{R: conn}
	dec := gob.NewDecoder(bufio.NewReader(limited))
	out := bufio.NewWriter(conn)
	enc := gob.NewEncoder(out)
	for {
		// More than one message is never read ahead: a client waits for its answer.
		limited.N = maxMessage
		var req request
		if dec.Decode(&req) != nil {
			return
		}
		res := s.answer(&req)
		if enc.Encode(&res) != nil || out.Flush() != nil {
			return
		}
	}
}

// server is what a client holds.
type server struct {
	tree   *Tree
	files  map[int]*File
	last   int
	memory int64
}

func (s *server) close() {
	for _, f := range s.files {
		f.Close()
	}
	s.tree.memory.Return(s.memory)
}

func (s *server) answer(r *request) (out response) {
	t, mode := s.tree, fs.FileMode(r.Mode).Perm()
	switch r.Op {
	case opStat:
		out.Stat, out.Errno = t.Stat(r.Path, true)
	case opLstat:
		out.Stat, out.Errno = t.Stat(r.Path, false)
	case opMkdir:
		out.Errno = t.Mkdir(r.Path, mode)
	case opChmod:
		out.Errno = t.Chmod(r.Path, mode)
	case opRename:
		out.Errno = t.Rename(r.Path, r.Second)
	case opRmdir:
		out.Errno = t.Rmdir(r.Path)
	case opUnlink:
		out.Errno = t.Unlink(r.Path)
	case opSymlink:
		out.Errno = t.Symlink(r.Path, r.Second)
	case opReadlink:
		out.Text, out.Errno = t.Readlink(r.Path)
	case opUtimens:
		out.Errno = t.Utimens(r.Path, r.Offset, r.Size)
	case opOpen:
		s.open(r, mode, &out)
	case opMemory:
		out.Errno = s.takeMemory(r.Size)
	default:
		s.onFile(r, &out)
	}
	return out
}

func (s *server) open(r *request, mode fs.FileMode, out *response) {
	if len(s.files) >= maxHandles {
		out.Errno = experimental.EAGAIN
		return
	}
	f, errno := s.tree.Open(r.Path, experimental.Oflag(r.Flag), mode)
	if out.Errno = errno; errno != 0 {
		return
	}
	s.last++
	s.files[s.last] = f
	out.Handle, out.Stat = s.last, f.Stat()
}

func (s *server) takeMemory(n int64) experimental.Errno {
	if n < 0 {
		n = max(n, -s.memory)
		s.tree.memory.Return(-n)
	} else if !s.tree.memory.Take(n) {
		return experimental.EAGAIN
	}
	s.memory += n
	return 0
}

func (s *server) onFile(r *request, out *response) {
	f := s.files[r.Handle]
	if f == nil {
		out.Errno = experimental.EBADF
		return
	}
	switch r.Op {
	case opClose:
		delete(s.files, r.Handle)
		f.Close()
	case opFileStat:
		out.Stat = f.Stat()
	case opRead:
		if r.Size < 0 || r.Size > maxData {
			out.Errno = experimental.EINVAL
			return
		}
		out.Data = make([]byte, r.Size)
		n, errno := f.ReadAt(out.Data, r.Offset)
		out.Data, out.Errno = out.Data[:n], errno
	case opWrite:
		n, errno := f.WriteAt(r.Data, r.Offset)
		out.N, out.Errno = int64(n), errno
	case opTruncate:
		out.Errno = f.Truncate(r.Size)
	case opList:
		out.Entries, out.Errno = f.List()
	case opFileUtimens:
		out.Errno = f.Utimens(r.Offset, r.Size)
	default:
		out.Errno = experimental.ENOSYS
	}
}
