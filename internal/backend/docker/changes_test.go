package docker

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/workspace"
)

// archiveOf is what an engine answers: an archive of entries, with or without its end.
func archiveOf(t *testing.T, whole bool, write func(w *tar.Writer)) func(string) (io.ReadCloser, error) {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	write(w)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if whole {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }
}

// put writes an entry. A file has so many bytes of content.
func put(t *testing.T, w *tar.Writer, h tar.Header, content io.Reader) {
	t.Helper()
	h.Name, h.Format = "workspace/"+h.Name, tar.FormatPAX
	if err := w.WriteHeader(&h); err != nil {
		t.Fatal(err)
	}
	if h.Size > 0 {
		if _, err := io.CopyN(w, content, h.Size); err != nil {
			t.Fatal(err)
		}
	}
}

// endless has the same byte again and again.
type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

// newChanges has a stored file "old" of four bytes, and space for so many.
func newChanges(t *testing.T, left int64) *changes {
	t.Helper()
	blob, err := os.Create(filepath.Join(t.TempDir(), "blob"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { blob.Close() })
	old := file{kind: workspace.Regular, size: 4, modTime: time.Unix(1000, 0), sum: sha256.Sum256([]byte("text"))}
	return &changes{stored: map[string]file{"old": old}, now: map[string]file{}, blob: blob, left: left, space: func(int64) error { return nil }}
}

// TestArchiveOfAnEngine reads archives that would make the stored files wrong, or the daemon large.
func TestArchiveOfAnEngine(t *testing.T) {
	good := func(w *tar.Writer) {
		put(t, w, tar.Header{Name: "", Typeflag: tar.TypeDir}, nil)
		put(t, w, tar.Header{Name: "old", Typeflag: tar.TypeReg, Size: 4}, strings.NewReader("text"))
		put(t, w, tar.Header{Name: "new", Typeflag: tar.TypeReg, Size: 4, Mode: 0o755}, strings.NewReader("more"))
		put(t, w, tar.Header{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, nil)
		put(t, w, tar.Header{Name: "twin", Typeflag: tar.TypeLink, Linkname: "workspace/new"}, nil)
		put(t, w, tar.Header{Name: "device", Typeflag: tar.TypeBlock, Devmajor: 8}, nil)
	}
	c := newChanges(t, 100)
	c.open = archiveOf(t, true, good)
	if err := c.read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(c.now) != 4 || !c.now["old"].same || c.now["new"].same || c.now["new"].kind != workspace.Executable || c.now["twin"].at != c.now["new"].at {
		t.Errorf("%+v", c.now)
	}

	deep := strings.Repeat(strings.Repeat("d", 250)+"/", 14)
	for name, tc := range map[string]struct {
		whole bool
		write func(w *tar.Writer)
		kind  api.Kind
	}{
		"cut off between two entries": {false, good, api.KindUnavailable},
		"cut off after zeros": {false, func(w *tar.Writer) {
			put(t, w, tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Size: 4096}, endless(0))
		}, api.KindUnavailable},
		"what lies in it is left out": {true, func(w *tar.Writer) {
			put(t, w, tar.Header{Name: deep + strings.Repeat("e", 100), Typeflag: tar.TypeDir}, nil)
		}, api.KindConflict},
		"another directory": {true, func(w *tar.Writer) {
			put(t, w, tar.Header{Name: "../etc/passwd", Typeflag: tar.TypeReg}, nil)
			put(t, w, tar.Header{Name: "outside", Typeflag: tar.TypeLink, Linkname: "etc/passwd"}, nil)
		}, api.KindInternal},
		"links with long targets": {true, func(w *tar.Writer) {
			for i := range 100 {
				put(t, w, tar.Header{Name: fmt.Sprint(i), Typeflag: tar.TypeSymlink, Linkname: strings.Repeat("x", 4000)}, nil)
			}
		}, api.KindExhausted},
		"a file of any size": {true, func(w *tar.Writer) {
			put(t, w, tar.Header{Name: "large", Typeflag: tar.TypeReg, Size: 101}, endless(1))
		}, api.KindExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChanges(t, 100)
			if name == "cut off after zeros" {
				c.left = 1 << 20
			}
			if name == "links with long targets" {
				c.names = maxNames - 300_000
			}
			c.open = archiveOf(t, tc.whole, tc.write)
			if err := c.read(t.Context()); api.KindOf(err) != tc.kind {
				t.Errorf("%v, want %s", err, tc.kind)
			}
		})
	}
}

// TestOneArchiveAtATime: an engine locks the container until an archive is closed, so that a second request for its files waits. Files that
// must be read again have the size and the time of what is stored.
func TestOneArchiveAtATime(t *testing.T) {
	c := newChanges(t, 100)
	file := func(name string) func(w *tar.Writer) {
		return func(w *tar.Writer) {
			put(t, w, tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 4, ModTime: c.stored["old"].modTime}, strings.NewReader("TEXT"))
		}
	}
	opened, open := 0, false
	c.open = func(p string) (io.ReadCloser, error) {
		if open {
			t.Fatalf("%s is requested while an archive is open", p)
		}
		opened, open = opened+1, true
		write := file("old")
		if p == workspaceDir {
			write = func(w *tar.Writer) {
				file("old")(w)
				put(t, w, tar.Header{Name: "twin", Typeflag: tar.TypeLink, Linkname: "workspace/old"}, nil)
			}
		} else if p != workspaceDir+"/old" {
			t.Errorf("%s is requested", p)
		}
		r, err := archiveOf(t, true, write)(p)
		return closer{r, func() { open = false }}, err
	}
	if err := c.read(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"old", "twin"} {
		f, b := c.now[name], make([]byte, 4)
		if _, err := c.blob.ReadAt(b, max(f.at, 0)); err != nil || f.same || f.at < 0 || string(b) != "TEXT" {
			t.Errorf("%s: %+v, %q, %v", name, f, b, err)
		}
	}
	if opened != 2 || c.end != 4 {
		t.Errorf("%d archives, %d bytes", opened, c.end)
	}
}

// closer notes its end.
type closer struct {
	io.Reader
	closed func()
}

func (c closer) Close() error {
	c.closed()
	return nil
}

// TestHoles: a file with holes does not fill the host's disk, is what it was when it is read back, and leaves nothing of it in the next
// one. The space of the host is checked while files are read, not afterwards.
func TestHoles(t *testing.T) {
	const size = 70 << 20
	c := newChanges(t, 2*size)
	c.open = archiveOf(t, true, func(w *tar.Writer) {
		put(t, w, tar.Header{Name: "old", Typeflag: tar.TypeReg, Size: 4}, strings.NewReader("text")) // kept at first: its time is another
		put(t, w, tar.Header{Name: "holes", Typeflag: tar.TypeReg, Size: size + 3}, io.MultiReader(io.LimitReader(endless(0), size), strings.NewReader("end")))
		put(t, w, tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Size: 3}, endless(0))
	})
	if err := c.read(t.Context()); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(c.blob.Fd()), &st); err != nil || st.Blocks*512 > 1<<20 || st.Size != size+6 {
		t.Errorf("%d bytes on the disk of %d: %v", st.Blocks*512, st.Size, err)
	}
	for name, end := range map[string]string{"holes": "\x00end", "zeros": "\x00\x00\x00"} {
		f := c.now[name]
		all, err := io.ReadAll(io.NewSectionReader(c.blob, f.at, f.size))
		if err != nil || int64(len(all)) != f.size || sha256.Sum256(all) != f.sum || !strings.HasSuffix(string(all), end) || strings.Trim(string(all), "\x00end") != "" {
			t.Errorf("%s has %d bytes: %v", name, len(all), err)
		}
	}

	c.end, c.checked, c.now = 0, 0, map[string]file{}
	c.space = func(need int64) error { return api.Errorf(api.KindExhausted, "no space for %d bytes", need) }
	if err := c.read(t.Context()); api.KindOf(err) != api.KindExhausted {
		t.Errorf("without space: %v", err)
	}
	if c.end != 0 {
		t.Errorf("%d bytes were kept", c.end)
	}
}
