package memfs_test

import (
	"bytes"
	"io"
	"io/fs"
	"net"
	"strings"
	"testing"

	experimental "github.com/tetratelabs/wazero/experimental/sys"

	"hortus.dev/internal/backend/wasm/memfs"
)

func newTree(t *testing.T) (*memfs.Tree, *memfs.Budget) {
	t.Helper()
	memory := memfs.NewBudget(8 << 20)
	return memfs.New(memfs.Config{Disk: 4 << 20, Memory: memory}), memory
}

func ok(t *testing.T, errno experimental.Errno) {
	t.Helper()
	if errno != 0 {
		t.Fatal(errno)
	}
}

// TestPaths resolves paths with links and "..", none of which leads out of the root.
func TestPaths(t *testing.T) {
	tree, _ := newTree(t)
	ok(t, tree.WriteFile("/a/b/file", []byte("x"), 0o644))
	ok(t, tree.Symlink("../../../../a/b", "/a/up"))
	ok(t, tree.Symlink("/a/b/file", "/abs"))
	ok(t, tree.Symlink("loop", "/loop"))
	ok(t, tree.Symlink("none", "/dangling"))
	for path, want := range map[string]experimental.Errno{
		"/a/b/file": 0, "a/b/file": 0, "/a/up/file": 0, "/abs": 0, "/../../a/b/file": 0, "/a/b/../../a/./b//file": 0, "/": 0, "/..": 0,
		"/a/none": experimental.ENOENT, "/none/file": experimental.ENOENT, "/abs/file": experimental.ENOTDIR, "/a/b/file/": experimental.ENOTDIR,
		"/loop": experimental.ELOOP, "/dangling": experimental.ENOENT, "/" + strings.Repeat("n", 256): experimental.ENAMETOOLONG, strings.Repeat("/a", 4000): experimental.ENAMETOOLONG,
	} {
		if _, errno := tree.Stat(path, true); errno != want {
			t.Errorf("%.60s: %v, want %v", path, errno, want)
		}
	}
	if errno := tree.Rename("/a", "/a/b/inside"); errno != experimental.EINVAL {
		t.Errorf("a directory was moved into itself: %v", errno)
	}
	ok(t, tree.WriteFile("/dangling", []byte("made"), 0o644))
	if st, errno := tree.Stat("/none", false); errno != 0 || st.Size != 4 {
		t.Errorf("through a link to nothing: %+v, %v", st, errno)
	}
}

// TestLimits returns everything that is removed, also of open files.
func TestLimits(t *testing.T) {
	tree, memory := newTree(t)
	empty, emptyMemory := tree.Used(), memory.Used()
	f, errno := tree.Open("/big", experimental.O_RDWR|experimental.O_CREAT, 0o644)
	ok(t, errno)
	n, errno := f.WriteAt(make([]byte, 8<<20), 0)
	if errno != experimental.EIO || n > 4<<20 || n < 3<<20 {
		t.Errorf("%d bytes, %v under a limit of 4 MiB", n, errno)
	}
	ok(t, f.Truncate(5000))
	if n, errno := f.WriteAt([]byte("end"), 1<<35); errno != experimental.EIO || n != 0 {
		t.Errorf("a file of 32 GiB in holes: %d, %v", n, errno)
	}
	ok(t, tree.Unlink("/big"))
	if tree.Used() == empty {
		t.Error("an open file without a name counts nothing")
	}
	f.Close()
	for i := range 100 {
		ok(t, tree.WriteFile("/d/"+strings.Repeat("x", i+1)+"/file", []byte("content"), 0o644))
	}
	ok(t, tree.RemoveAll("/d"))
	if tree.Used() != empty || memory.Used() != emptyMemory {
		t.Errorf("%d bytes of the disk and %d of the memory are used by nothing", tree.Used()-empty, memory.Used()-emptyMemory)
	}
}

// TestClient works on a tree over a connection, and what it held is released at its end.
func TestClient(t *testing.T) {
	tree, memory := newTree(t)
	before := memory.Used()
	ours, theirs := net.Pipe()
	served := make(chan struct{})
	go func() { defer close(served); memfs.Serve(theirs, tree) }()
	c := memfs.NewClient(ours)
	f, errno := c.OpenFile("file", experimental.O_RDWR|experimental.O_CREAT, 0o600)
	ok(t, errno)
	want := bytes.Repeat([]byte("0123456789"), 60_000)
	n, errno := f.Write(want)
	ok(t, errno)
	if _, errno := f.Seek(0, io.SeekStart); errno != 0 || n != len(want) {
		t.Fatalf("%d bytes, %v", n, errno)
	}
	got := make([]byte, len(want)+1)
	if n, errno := f.Read(got); errno != 0 || !bytes.Equal(got[:n], want) {
		t.Errorf("%d bytes, %v", n, errno)
	}
	ok(t, c.Mkdir("dir", 0o755))
	root, errno := c.OpenFile("/", 0, 0)
	ok(t, errno)
	if list, errno := root.Readdir(-1); errno != 0 || len(list) != 2 || list[0].Name != "dir" || list[0].Type != fs.ModeDir {
		t.Errorf("%+v, %v", list, errno)
	}
	if !c.TakeMemory(1<<20) || c.TakeMemory(1<<40) {
		t.Error("memory beyond the budget, or none within it")
	}
	ok(t, c.Unlink("file"))
	ok(t, c.Rmdir("dir"))
	ours.Close()
	<-served
	if memory.Used() != before {
		t.Errorf("%d bytes stay used", memory.Used()-before)
	}
	if _, errno := c.Stat("/"); errno != experimental.EIO {
		t.Errorf("after the end: %v", errno)
	}
}

// TestHostileClient sends what is no request.
func TestHostileClient(t *testing.T) {
	tree, _ := newTree(t)
	for name, bytes := range map[string][]byte{
		"text": []byte(strings.Repeat("GET / HTTP/1.1\r\n", 1000)), "a message of 8 GB": {0xf8, 0, 0, 0, 2, 0, 0, 0, 0, 1}, "nothing": nil,
	} {
		ours, theirs := net.Pipe()
		served := make(chan struct{})
		go func() { defer close(served); defer theirs.Close(); memfs.Serve(theirs, tree) }()
		ours.Write(bytes) // it may end before it has read everything
		ours.Close()
		<-served
		t.Logf("%s ended", name)
	}
}
