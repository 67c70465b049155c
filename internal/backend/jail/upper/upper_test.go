package upper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func isRoot() bool { return os.Geteuid() == 0 }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, dir string) int {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func same1(id uint32) (uint32, bool) { return id, true }

// options are wide bounds.
func options() Options {
	return Options{ID: same1, Entries: 1 << 20, Bytes: 1 << 30, Lift: !isRoot()}
}

func pack(t testing.TB, dir string, o Options) ([]byte, error) {
	t.Helper()
	var b bytes.Buffer
	err := Write(context.Background(), &b, []Tree{{Name: Root, Dir: open(t, dir)}}, o)
	return b.Bytes(), err
}

// chown is what the stage does as root inside.
func chown(fd int, name string, uid, gid uint32) error {
	if !isRoot() {
		return nil
	}
	flags := unix.AT_SYMLINK_NOFOLLOW
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	return unix.Fchownat(fd, name, int(uid), int(gid), flags)
}

func unpack(t testing.TB, b []byte, dir string) error {
	t.Helper()
	r, err := NewReader(bytes.NewReader(b), chown)
	if err != nil {
		return err
	}
	if err := r.Tree(Root, open(t, dir)); err != nil {
		return err
	}
	return r.End()
}

// listing describes a tree, a line for each entry.
func listing(t testing.TB, dir string) string {
	t.Helper()
	var lines []string
	links := map[uint64]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		line := fmt.Sprintf("%q %o %d:%d", rel, st.Mode, st.Uid, st.Gid)
		if st.Mode&unix.S_IFMT != unix.S_IFCHR {
			line += fmt.Sprintf(" %d.%d", st.Mtim.Sec, st.Mtim.Nsec)
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			var v [8]byte
			n, _ := unix.Lgetxattr(p, opaqueMark, v[:])
			line += fmt.Sprintf(" opaque %q", v[:max(n, 0)])
		case unix.S_IFREG:
			if st.Nlink > 1 && links[st.Ino] == "" {
				links[st.Ino] = rel
			}
			line += fmt.Sprintf(" size %d first %q", st.Size, links[st.Ino])
			if st.Size < 1<<20 && (isRoot() || st.Mode&0o400 != 0) {
				b, err := os.ReadFile(p)
				if err != nil {
					return err
				}
				line += fmt.Sprintf(" %q", b)
			}
		case unix.S_IFLNK:
			target, _ := os.Readlink(p)
			line += fmt.Sprintf(" %q", target)
		}
		lines = append(lines, line)
		return nil
	})
	must(t, err)
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

// marked reports whether a directory can have attributes of an overlay.
func marked(t testing.TB, dir, name, value string) bool {
	t.Helper()
	err := unix.Setxattr(dir, name, []byte(value), 0)
	if err == unix.EOPNOTSUPP {
		t.Skipf("%s keeps no attributes", dir)
	}
	must(t, err)
	return true
}

// grown is a tree of everything that can be kept.
func grown(t testing.TB) string {
	dir := t.TempDir()
	p := func(s string) string { return filepath.Join(dir, s) }
	long := strings.Repeat("n", 255)
	for _, d := range []string{"d", "d/" + long, "hides", "shut", "a\nb", "\xff\xfe", "empty"} {
		must(t, os.Mkdir(p(d), 0o755))
	}
	must(t, os.WriteFile(p("d/file"), []byte("content"), 0o640))
	must(t, os.WriteFile(p("\xff\xfe/x"), nil, 0o644))
	must(t, os.WriteFile(p("shut/secret"), []byte("mine"), 0o600))
	must(t, os.Link(p("d/file"), p("d/"+long+"/twin")))
	must(t, os.Link(p("d/file"), p("again")))
	must(t, os.Symlink("/etc/passwd", p("out")))
	must(t, os.Symlink(strings.Repeat("x", maxText), p("far")))
	must(t, os.Symlink("d", p("in")))
	must(t, unix.Mkfifo(p("pipe"), 0o600))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: p("socket"), Net: "unix"})
	must(t, err)
	l.SetUnlinkOnClose(false)
	must(t, l.Close())
	must(t, unix.Mknod(p("gone"), unix.S_IFCHR, 0))
	must(t, os.Link(p("gone"), p("gone too"))) // as overlays make them
	marked(t, p("hides"), opaqueMark, "y")
	marked(t, p("d"), "user.overlay.origin", "handle")
	marked(t, p("d"), "user.else", "kept by nobody")
	f, err := os.Create(p("sparse"))
	must(t, err)
	_, err = f.WriteAt([]byte("far out"), 1<<34)
	must(t, err)
	must(t, f.Truncate(1<<40))
	must(t, f.Close())
	if isRoot() {
		must(t, os.Lchown(p("out"), 7, 8))
		must(t, os.Chown(p("d/file"), 1000, 1001))
	}
	must(t, os.Chmod(p("again"), 0o4751|os.ModeSetuid))
	must(t, unix.Chmod(p("again"), 0o6751))
	must(t, os.Chtimes(p("d/file"), time.Time{}, time.Unix(-5, 7)))
	must(t, os.Chmod(p("shut/secret"), 0))
	must(t, unix.Chmod(p("d"), 0o1777))
	must(t, os.Chtimes(p("d"), time.Time{}, time.Unix(1e9, 0)))
	must(t, unix.Chmod(dir, 0o711))
	return dir
}

func TestRoundTrip(t *testing.T) {
	from, to := grown(t), t.TempDir()
	want := listing(t, from)
	must(t, os.Chmod(filepath.Join(from, "shut"), 0))
	t.Cleanup(func() {
		os.Chmod(filepath.Join(from, "shut"), 0o755)
		os.Chmod(filepath.Join(to, "shut"), 0o755)
	})
	b, err := pack(t, from, options())
	must(t, err)
	if len(b) > 64<<10 {
		t.Errorf("%d bytes: holes were saved", len(b))
	}
	st, err := os.Stat(filepath.Join(from, "shut"))
	if must(t, err); st.Mode().Perm() != 0 {
		t.Errorf("a directory that was shut is %v", st.Mode())
	}
	if bytes.Contains(b, []byte("root:x:0")) {
		t.Error("what a link leads to was saved")
	}
	must(t, unpack(t, b, to))
	if st, err := os.Stat(filepath.Join(to, "shut")); err != nil || st.Mode().Perm() != 0 {
		t.Errorf("a directory that was shut came back %v, %v", st, err)
	}
	must(t, os.Chmod(filepath.Join(to, "shut"), 0o755))
	if got := listing(t, to); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	var sparse unix.Stat_t
	must(t, unix.Stat(filepath.Join(to, "sparse"), &sparse))
	if sparse.Blocks*512 > 1<<20 {
		t.Errorf("a sparse file takes %d bytes", sparse.Blocks*512)
	}
	if n, _ := unix.Lgetxattr(filepath.Join(to, "d"), "user.else", make([]byte, 8)); n > 0 {
		t.Error("an attribute was kept")
	}
}

func TestWriteRefuses(t *testing.T) {
	for _, c := range []struct {
		name, why string
		make      func(t *testing.T, dir string)
		o         func(o *Options)
	}{
		{"a redirect", "user.overlay.redirect", func(t *testing.T, dir string) {
			must(t, os.Mkdir(dir+"/d", 0o755))
			marked(t, dir+"/d", "user.overlay.redirect", "/etc")
		}, nil},
		{"an opaque mark of another kind", opaqueMark, func(t *testing.T, dir string) {
			must(t, os.Mkdir(dir+"/d", 0o755))
			marked(t, dir+"/d", opaqueMark, "x")
		}, nil},
		{"an opaque file", opaqueMark, func(t *testing.T, dir string) {
			must(t, os.WriteFile(dir+"/f", nil, 0o644))
			marked(t, dir+"/f", opaqueMark, "y")
		}, nil},
		{"a file whose content is elsewhere", "user.overlay.metacopy", func(t *testing.T, dir string) {
			must(t, os.WriteFile(dir+"/f", nil, 0o644))
			marked(t, dir+"/f", "user.overlay.metacopy", "")
		}, nil},
		{"another's id", "not ids of the sandbox", func(t *testing.T, dir string) {
			must(t, os.WriteFile(dir+"/f", nil, 0o644))
		}, func(o *Options) { o.ID = func(uint32) (uint32, bool) { return 0, false } }},
		{"many", "maximum number of entries", func(t *testing.T, dir string) {
			for i := range 11 {
				must(t, os.WriteFile(fmt.Sprintf("%s/%d", dir, i), nil, 0o644))
			}
		}, func(o *Options) { o.Entries = 10 }},
		{"much", "exceeds the size of the sandbox's disk", func(t *testing.T, dir string) {
			must(t, os.WriteFile(dir+"/f", make([]byte, 4097), 0o644))
		}, func(o *Options) { o.Bytes = 4096 }},
		{"deep", "nested deeper", func(t *testing.T, dir string) {
			nest(t, open(t, dir), maxDepth+1, "d")
		}, nil},
		{"long", "nested deeper", func(t *testing.T, dir string) {
			nest(t, open(t, dir), 20, strings.Repeat("d", 255))
		}, nil},
		{"a device", "it is a device", func(t *testing.T, dir string) {
			if err := unix.Mknod(dir+"/sda", unix.S_IFBLK|0o666, int(unix.Mkdev(8, 0))); err != nil {
				t.Skipf("no device can be made: %v", err)
			}
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			c.make(t, dir)
			o := options()
			if c.o != nil {
				c.o(&o)
			}
			_, err := pack(t, dir, o)
			var r *RefusedError
			if !errors.As(err, &r) || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%v", err)
			}
		})
	}
}

// nest makes directories in one another, deeper than a path could name.
func nest(t testing.TB, at, levels int, name string) {
	t.Helper()
	for range levels {
		must(t, unix.Mkdirat(at, name, 0o755))
		next, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(t, err)
		defer unix.Close(next)
		at = next
	}
}

// What fits the bounds exactly comes through.
func TestDeepestThatIsKept(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	nest(t, open(t, from), maxDepth, "d")
	b, err := pack(t, from, options())
	must(t, err)
	must(t, unpack(t, b, to))
	if got, want := listing(t, to), listing(t, from); got != want {
		t.Error("it is another tree")
	}
}

func TestCanceledWrite(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Write(ctx, &bytes.Buffer{}, []Tree{{Name: Root, Dir: open(t, grown(t))}}, options())
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// An access list's group must not get what only others named in it had.
func TestAccessListIsLeftOut(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(dir+"/f", []byte("x"), 0o600))
	entry := func(tag, perm uint16, id uint32) []byte {
		return []byte{byte(tag), byte(tag >> 8), byte(perm), byte(perm >> 8), byte(id), byte(id >> 8), byte(id >> 16), byte(id >> 24)}
	}
	const none = 1<<32 - 1
	acl := bytes.Join([][]byte{{2, 0, 0, 0}, entry(1, 6, none), entry(2, 6, 65534), entry(4, 0, none), entry(0x10, 6, none), entry(0x20, 0, none)}, nil)
	if err := unix.Setxattr(dir+"/f", accessList, acl, 0); err != nil {
		t.Skipf("no access lists here: %v", err)
	}
	st, err := os.Stat(dir + "/f")
	if must(t, err); st.Mode().Perm() != 0o660 {
		t.Fatalf("the list shows as %v", st.Mode())
	}
	b, err := pack(t, dir, options())
	must(t, err)
	must(t, unpack(t, b, to))
	if st, err := os.Stat(to + "/f"); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}
