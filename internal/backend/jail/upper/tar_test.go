package upper

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// tarred converts a saved file with wide limits.
func tarred(b []byte) ([]byte, error) {
	var out bytes.Buffer
	err := Tar(context.Background(), &out, bytes.NewReader(b), TarOptions{Entries: 10_000, Bytes: 1 << 20})
	return out.Bytes(), err
}

// members lists an archive.
func members(t testing.TB, b []byte) string {
	t.Helper()
	var out strings.Builder
	for tr := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return out.String()
		}
		must(t, err)
		text, err := io.ReadAll(tr)
		must(t, err)
		fmt.Fprintf(&out, "%c %q %o %d:%d %q %q\n", h.Typeflag, h.Name, h.Mode, h.Uid-os.Geteuid(), h.Gid-os.Getegid(), h.Linkname, text)
	}
}

// TestTar saves a tree and converts it: with the forms of an image, holes as zeros, and the owner
// and mode of a file at each of its names.
func TestTar(t *testing.T) {
	dir := t.TempDir()
	p := func(s string) string { return filepath.Join(dir, s) }
	for _, d := range []string{"a", "hides"} {
		must(t, os.Mkdir(p(d), 0o755))
	}
	must(t, os.WriteFile(p("a/file"), []byte("content"), 0o600))
	must(t, unix.Chmod(p("a/file"), 0o4751))
	must(t, os.Link(p("a/file"), p("twin")))
	must(t, os.WriteFile(p("hides/new"), nil, 0o600))
	must(t, os.Symlink("/etc/passwd", p("out")))
	must(t, unix.Mkfifo(p("pipe"), 0o600))
	must(t, os.Link(p("pipe"), p("pipe2")))
	must(t, unix.Mknod(p("gone"), unix.S_IFCHR, 0))
	if !marked(t, p("hides"), opaqueMark, "y") {
		t.Skip("this file system has no attributes of users")
	}
	f, err := os.Create(p("sparse"))
	must(t, err)
	_, err = f.WriteAt([]byte("x"), 8192)
	must(t, err)
	must(t, errors.Join(f.Truncate(8195), f.Chmod(0o600), f.Close()))
	must(t, unix.Chmod(dir, 0o711))

	saved, err := pack(t, dir, options())
	must(t, err)
	b, err := tarred(saved)
	must(t, err)
	again, err := tarred(saved)
	if must(t, err); !bytes.Equal(b, again) {
		t.Error("the same file makes another archive")
	}
	got := map[string]bool{}
	for line := range strings.Lines(members(t, b)) {
		got[line] = true
	}
	wh := fmt.Sprintf("%d:%d", -os.Geteuid(), -os.Getegid())
	first, second := "a/file", "twin" // whichever the directory has first is the file
	if got[fmt.Sprintf("0 %q 4751 0:0 \"\" \"content\"\n", second)] {
		first, second = second, first
	}
	for _, want := range []string{
		`5 "./" 711 0:0 "" ""`, `5 "a/" 755 0:0 "" ""`, `5 "hides/" 755 0:0 "" ""`, `0 "hides/.wh..wh..opq" 0 ` + wh + ` "" ""`, `0 "hides/new" 600 0:0 "" ""`,
		fmt.Sprintf(`0 %q 4751 0:0 "" "content"`, first), fmt.Sprintf(`1 %q 4751 0:0 %q ""`, second, first),
		`2 "out" 777 0:0 "/etc/passwd" ""`, `0 ".wh.gone" 0 ` + wh + ` "" ""`,
		fmt.Sprintf(`0 "sparse" 600 0:0 "" %q`, strings.Repeat("\x00", 8192)+"x\x00\x00"),
	} {
		if !got[want+"\n"] {
			t.Errorf("no %s", want)
		}
		delete(got, want+"\n")
	}
	if len(got) > 0 {
		t.Errorf("also: %v", got)
	}
}

// TestTarRefuses: what a guest made that an archive cannot hold, or that has an effect in one, and
// files that are damaged.
func TestTarRefuses(t *testing.T) {
	deep := func(f *forged, levels int, name string) {
		for range levels {
			f.rec(recDir, name).meta(0o755)
		}
		for range levels {
			f.WriteByte(recUp)
		}
	}
	for name, tc := range map[string]struct {
		make    func(f *forged)
		refused bool // a *RefusedError, or a damaged file
	}{
		"a whiteout's name":        {func(f *forged) { f.rec(recFile, ".wh.etc").meta(0o644).numbers(0, 0, 0) }, true},
		"an opaque marker's name":  {func(f *forged) { f.rec(recDir, ".wh..wh..opq").meta(0o755); f.WriteByte(recUp) }, true},
		"a whiteout of a whiteout": {func(f *forged) { f.rec(recWhiteout, ".wh.x") }, true},
		"a long path":              {func(f *forged) { deep(f, 20, strings.Repeat("n", 255)) }, true},
		"deep directories":         {func(f *forged) { deep(f, maxDepth+2, "d") }, false},
		"a large file":             {func(f *forged) { f.rec(recFile, "f").meta(0o644).numbers(1<<20+1, 0, 0) }, true},
		"the largest file":         {func(f *forged) { f.rec(recFile, "f").meta(0o644).numbers(1<<63-1, 0, 0) }, true},
		"a negative size":          {func(f *forged) { f.rec(recFile, "f").meta(0o644).numbers(1<<63, 0, 0) }, false},
		"content past the end":     {func(f *forged) { f.rec(recFile, "f").meta(0o644).numbers(1, 1, 1).WriteString("x") }, false},
		"extents in disorder":      {func(f *forged) { f.rec(recFile, "f").meta(0o644).numbers(9, 5, 1).WriteString("x"); f.numbers(1, 1) }, false},
		"a link up":                {func(f *forged) { f.rec(recHard, "h").text("../etc/passwd") }, false},
		"a link to nothing":        {func(f *forged) { f.rec(recHard, "h").text("etc/passwd") }, false},
		"a link through a link":    {func(f *forged) { f.rec(recSymlink, "l").meta(0).text("/etc").rec(recHard, "h").text("l/passwd") }, false},
		"a name with a path":       {func(f *forged) { f.rec(recFile, "../f").meta(0o644).numbers(0, 0, 0) }, false},
		"an unknown record":        {func(f *forged) { f.rec('?', "x").meta(0) }, false},
		"too many entries": {func(f *forged) {
			for i := range 10_001 {
				f.rec(recWhiteout, fmt.Sprint(i))
			}
		}, true},
		"a workspace":   {func(f *forged) { f.WriteByte(recUp); f.rec(recTree, Workspace).meta(0o755) }, true},
		"trailing data": {func(f *forged) { f.WriteByte(recUp); f.WriteByte(recEnd); f.WriteByte(0) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := forge()
			tc.make(f)
			_, err := tarred(f.end())
			var refused *RefusedError
			if err == nil || errors.As(err, &refused) != tc.refused || !tc.refused && !errors.Is(err, errDamaged) {
				t.Error(err)
			}
		})
	}
	whole := forge().rec(recFile, "f").meta(0o644).numbers(3, 0, 3)
	whole.WriteString("abc")
	b := whole.numbers(0, 0).end()
	for n := range len(b) {
		if _, err := tarred(b[:n]); !errors.Is(err, errDamaged) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	if _, err := tarred(b); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Tar(ctx, io.Discard, bytes.NewReader(b), TarOptions{Entries: 9, Bytes: 9}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// FuzzTar: whatever a saved file says, its archive is well-formed, and has no name that leads out.
func FuzzTar(f *testing.F) {
	f.Add(forge().rec(recDir, "d").meta(0o755).rec(recFile, "f").meta(0o4755).numbers(10, 2, 3).rec(recUp, "").end())
	f.Add(forge().rec(recSymlink, "l").meta(0).text("../secret").rec(recHard, "h").text("l").end())
	f.Add(forge().rec(recOpaque, "d").meta(0).rec(recWhiteout, "w").end())
	f.Add(forge().rec(recSocket, "s").meta(0o7777).rec(recFifo, "p").meta(0).rec(recHard, "h").text("p").end())
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := tarred(b)
		if err != nil {
			return
		}
		for tr := tar.NewReader(bytes.NewReader(out)); ; {
			h, err := tr.Next()
			if err == io.EOF {
				return
			}
			must(t, err)
			if !filepath.IsLocal(h.Name) || h.Typeflag == tar.TypeLink && !filepath.IsLocal(h.Linkname) {
				t.Errorf("%q, %q", h.Name, h.Linkname)
			}
		}
	})
}
