package memfs

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	experimental "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

const (
	maxLinks = 40       // symbolic links in a path
	maxName  = 255      // bytes of a name
	maxPath  = 4096     // bytes of a path
	maxSize  = 64 << 30 // bytes of a file, with its holes
)

// Config configures a tree.
type Config struct {
	// Disk is the maximum size of everything in the tree, in bytes.
	Disk int64
	// Memory is what the tree takes the same bytes from.
	Memory *Budget
}

// Tree is a file system. Its methods may be called from several goroutines. Paths are absolute,
// or relative to the root; errors are those of wazero's file systems.
type Tree struct {
	disk   *Budget
	memory *Budget

	mu   sync.Mutex
	root *node
	ino  sys.Inode
}

// New returns an empty tree.
func New(cfg Config) *Tree {
	t := &Tree{disk: NewBudget(cfg.Disk), memory: cfg.Memory}
	t.root = t.node(fs.ModeDir | 0o755)
	return t
}

// Used returns the bytes that count against the disk limit.
func (t *Tree) Used() int64 { return t.disk.Used() }

func (t *Tree) take(n int64) bool {
	if !t.disk.Take(n) {
		return false
	}
	if !t.memory.Take(n) {
		t.disk.Return(n)
		return false
	}
	return true
}

func (t *Tree) release(n int64) {
	t.disk.Return(n)
	t.memory.Return(n)
}

// node makes a node without a name. The caller holds the lock, or is New.
func (t *Tree) node(mode fs.FileMode) *node {
	t.ino++
	n := &node{ino: t.ino, mode: mode, atime: now(), mtime: now()}
	if mode.IsDir() {
		n.children = map[string]*node{}
	}
	return n
}

// place is where a path leads: a name in a directory, and what has that name, if anything.
type place struct {
	dir  *node // nil for the root
	name string
	node *node // nil if there is none
}

// walk resolves a path. It follows a link at its end if follow is set. Nothing leads out of the
// root: its parent is the root itself.
func (t *Tree) walk(p string, follow bool) (place, experimental.Errno) {
	if len(p) > maxPath {
		return place{}, experimental.ENAMETOOLONG
	}
	stack := []*node{t.root}
	rest := strings.Split(p, "/")
	links := 0
	at := place{node: t.root}
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			if name == "." && at.node != nil && !at.node.mode.IsDir() {
				return place{}, experimental.ENOTDIR
			}
			continue
		case "..":
			if len(stack) > 1 {
				stack = stack[:len(stack)-1]
			}
			at = place{node: stack[len(stack)-1]}
			continue
		}
		if len(name) > maxName || strings.Contains(name, "\x00") {
			return place{}, experimental.ENAMETOOLONG
		}
		dir := stack[len(stack)-1]
		last := !slices.ContainsFunc(rest, func(s string) bool { return s != "" })
		next := dir.children[name]
		if next == nil {
			if last {
				return place{dir: dir, name: name}, 0
			}
			return place{}, experimental.ENOENT
		}
		if next.mode&fs.ModeSymlink != 0 && (!last || follow || len(rest) > 0) {
			if links++; links > maxLinks {
				return place{}, experimental.ELOOP
			}
			if strings.HasPrefix(next.target, "/") {
				stack = stack[:1]
				at = place{node: t.root}
			}
			rest = append(strings.Split(next.target, "/"), rest...)
			continue
		}
		at = place{dir: dir, name: name, node: next}
		if next.mode.IsDir() {
			stack = append(stack, next)
		} else if !last || len(rest) > 0 {
			return place{}, experimental.ENOTDIR
		}
	}
	return at, 0
}

// find resolves a path to a node that is there.
func (t *Tree) find(p string, follow bool) (place, experimental.Errno) {
	at, errno := t.walk(p, follow)
	if errno == 0 && at.node == nil {
		errno = experimental.ENOENT
	}
	return at, errno
}

// link gives a new node its name.
func (t *Tree) link(at place, n *node) experimental.Errno {
	if at.dir == nil || at.name == "" {
		return experimental.EEXIST
	}
	if !t.take(cost(at.name, n)) {
		return experimental.EIO
	}
	at.dir.children[at.name] = n
	at.dir.mtime = now()
	return 0
}

func cost(name string, n *node) int64 { return entrySize + int64(len(name)+len(n.target)) }

// unlink removes a name. The content is released when nobody has it open.
func (t *Tree) unlink(at place) {
	delete(at.dir.children, at.name)
	at.dir.mtime = now()
	t.release(cost(at.name, at.node))
	at.node.removed = true
	t.free(at.node)
}

// free releases the content of a node that has neither a name nor an open file.
func (t *Tree) free(n *node) {
	if n.removed && n.opens == 0 {
		t.release(n.held())
		n.blocks, n.size = nil, 0
	}
}

// Stat describes an entry, without following a link at the end of the path unless follow is set.
func (t *Tree) Stat(p string, follow bool) (sys.Stat_t, experimental.Errno) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, errno := t.find(p, follow)
	if errno != 0 {
		return sys.Stat_t{}, errno
	}
	return at.node.stat(), 0
}

// Mkdir makes a directory.
func (t *Tree) Mkdir(p string, mode fs.FileMode) experimental.Errno {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, errno := t.walk(p, false)
	if errno != 0 {
		return errno
	}
	if at.node != nil {
		return experimental.EEXIST
	}
	return t.link(at, t.node(fs.ModeDir|mode.Perm()))
}

// MkdirAll makes a directory and its parents. Those that are there stay as they are.
func (t *Tree) MkdirAll(p string) experimental.Errno {
	for i := 1; i <= len(p); i++ {
		if i < len(p) && p[i] != '/' {
			continue
		}
		if errno := t.Mkdir(p[:i], 0o755); errno != 0 && errno != experimental.EEXIST {
			return errno
		}
	}
	st, errno := t.Stat(p, true)
	if errno == 0 && !st.Mode.IsDir() {
		errno = experimental.ENOTDIR
	}
	return errno
}

// Symlink makes a symbolic link.
func (t *Tree) Symlink(target, p string) experimental.Errno {
	if len(target) > maxPath {
		return experimental.ENAMETOOLONG
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	at, errno := t.walk(p, false)
	if errno != 0 {
		return errno
	}
	if at.node != nil {
		return experimental.EEXIST
	}
	n := t.node(fs.ModeSymlink | 0o777)
	n.target = target
	return t.link(at, n)
}

// Readlink returns the target of a symbolic link.
func (t *Tree) Readlink(p string) (string, experimental.Errno) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, errno := t.find(p, false)
	if errno != 0 {
		return "", errno
	}
	if at.node.mode&fs.ModeSymlink == 0 {
		return "", experimental.EINVAL
	}
	return at.node.target, 0
}

// Chmod sets the permission bits. They are recorded, not enforced: a tree has one user.
func (t *Tree) Chmod(p string, mode fs.FileMode) experimental.Errno {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, errno := t.find(p, true)
	if errno == 0 {
		at.node.mode = at.node.mode.Type() | mode.Perm()
	}
	return errno
}

// Utimens sets times; experimental.UTIME_OMIT leaves one.
func (t *Tree) Utimens(p string, atime, mtime int64) experimental.Errno {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, errno := t.find(p, true)
	if errno == 0 {
		at.node.setTimes(atime, mtime)
	}
	return errno
}

func (n *node) setTimes(atime, mtime int64) {
	if atime != experimental.UTIME_OMIT {
		n.atime = atime
	}
	if mtime != experimental.UTIME_OMIT {
		n.mtime = mtime
	}
}

// Unlink removes a file or a link, Rmdir an empty directory.
func (t *Tree) Unlink(p string) experimental.Errno {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, errno := t.find(p, false)
	switch {
	case errno != 0:
		return errno
	case at.node.mode.IsDir():
		return experimental.EISDIR
	}
	t.unlink(at)
	return 0
}

// Rmdir removes an empty directory.
func (t *Tree) Rmdir(p string) experimental.Errno {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, errno := t.find(p, false)
	switch {
	case errno != 0:
		return errno
	case !at.node.mode.IsDir():
		return experimental.ENOTDIR
	case len(at.node.children) > 0:
		return experimental.ENOTEMPTY
	case at.dir == nil:
		return experimental.EPERM
	}
	t.unlink(at)
	return 0
}

// RemoveAll removes an entry and everything below it. A missing one is no error.
func (t *Tree) RemoveAll(p string) experimental.Errno {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, errno := t.walk(p, false)
	switch {
	case errno == experimental.ENOENT || errno == 0 && at.node == nil:
		return 0
	case errno != 0:
		return errno
	case at.dir == nil:
		return experimental.EPERM
	}
	t.empty(at.node)
	t.unlink(at)
	return 0
}

func (t *Tree) empty(dir *node) {
	for name, n := range dir.children {
		t.empty(n)
		t.unlink(place{dir: dir, name: name, node: n})
	}
}

// Rename moves an entry, over a file or an empty directory that is there.
func (t *Tree) Rename(from, to string) experimental.Errno {
	t.mu.Lock()
	defer t.mu.Unlock()
	src, errno := t.find(from, false)
	if errno != 0 {
		return errno
	}
	dst, errno := t.walk(to, false)
	switch {
	case errno != 0:
		return errno
	case src.dir == nil || dst.dir == nil:
		return experimental.EPERM
	case src.node == dst.node:
		return 0
	case src.node.mode.IsDir() && contains(src.node, dst.dir):
		return experimental.EINVAL
	}
	if dst.node != nil {
		switch {
		case dst.node.mode.IsDir() && !src.node.mode.IsDir():
			return experimental.EISDIR
		case !dst.node.mode.IsDir() && src.node.mode.IsDir():
			return experimental.ENOTDIR
		case len(dst.node.children) > 0:
			return experimental.ENOTEMPTY
		}
		t.unlink(dst)
	}
	// The new name may be longer.
	if more := int64(len(dst.name) - len(src.name)); more > 0 && !t.take(more) {
		return experimental.EIO
	} else if more < 0 {
		t.release(-more)
	}
	delete(src.dir.children, src.name)
	dst.dir.children[dst.name] = src.node
	src.dir.mtime, dst.dir.mtime = now(), now()
	return 0
}

// contains reports whether a directory is dir or below it.
func contains(dir, other *node) bool {
	if dir == other {
		return true
	}
	for _, n := range dir.children {
		if n.mode.IsDir() && contains(n, other) {
			return true
		}
	}
	return false
}

// Entry is an entry of a directory.
type Entry struct {
	Name string
	Stat sys.Stat_t
	Link string // the target of a symbolic link
}

// List lists a directory by name.
func (t *Tree) List(p string) ([]Entry, experimental.Errno) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, errno := t.find(p, true)
	if errno == 0 && !at.node.mode.IsDir() {
		errno = experimental.ENOTDIR
	}
	if errno != 0 {
		return nil, errno
	}
	return at.node.list(), 0
}

func (n *node) list() []Entry {
	out := make([]Entry, 0, len(n.children))
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		c := n.children[name]
		out = append(out, Entry{Name: name, Stat: c.stat(), Link: c.target})
	}
	return out
}

// WriteFile writes a file and makes missing parents.
func (t *Tree) WriteFile(p string, data []byte, mode fs.FileMode) experimental.Errno {
	if errno := t.MkdirAll(path.Dir(p)); errno != 0 {
		return errno
	}
	f, errno := t.Open(p, experimental.O_WRONLY|experimental.O_CREAT|experimental.O_TRUNC, mode)
	if errno != 0 {
		return errno
	}
	defer f.Close()
	_, errno = f.WriteAt(data, 0)
	return errno
}
