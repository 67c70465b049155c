package build

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
)

func newFiles(t testing.TB) *Files {
	t.Helper()
	f, err := OpenFiles(FilesConfig{Dir: filepath.Join(t.TempDir(), "builds"), CheckSpace: func(context.Context, string, string, int64) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// tarOf writes headers with bodies; a size that is not that of the body is left as it is.
func tarOf(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(h.Gname))
		}
		body := h.Gname
		h.Gname, h.Mode = "", 0o644
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			io.WriteString(w, body)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func file(name, body string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Gname: body}
}

// TestHostileArchives: an archive that names anything outside, or is no plain tree, is refused, and leaves nothing.
func TestHostileArchives(t *testing.T) {
	f := newFiles(t)
	ctx := api.WithPrincipal(t.Context(), api.Principal{Role: api.RoleUser, Account: "a"})
	link := func(name, to string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
	}
	for name, archive := range map[string][]byte{
		"up":                      tarOf(t, file("../../etc/passwd", "x")),
		"up in the middle":        tarOf(t, file("a/../../x", "x")),
		"absolute":                tarOf(t, file("/etc/passwd", "x")),
		"through a link":          tarOf(t, link("a", "/etc"), file("a/passwd", "x")),
		"through a link, deep":    tarOf(t, link("a", "/"), file("a/etc/passwd", "x")),
		"below a file":            tarOf(t, file("a", "x"), file("a/b", "x")),
		"twice":                   tarOf(t, file("a", "x"), file("a", "y")),
		"twice, spelled another":  tarOf(t, file("a", "x"), file("./a", "y")),
		"a hard link to the host": tarOf(t, tar.Header{Typeflag: tar.TypeLink, Name: "a", Linkname: "/etc/passwd"}),
		"a hard link to nothing":  tarOf(t, tar.Header{Typeflag: tar.TypeLink, Name: "a", Linkname: "b"}),
		"a hard link to a link":   tarOf(t, link("b", "/etc/passwd"), tar.Header{Typeflag: tar.TypeLink, Name: "a", Linkname: "b"}),
		"a device":                tarOf(t, tar.Header{Typeflag: tar.TypeChar, Name: "a"}),
		"a pipe":                  tarOf(t, tar.Header{Typeflag: tar.TypeFifo, Name: "a"}),
		"deep":                    tarOf(t, file(strings.Repeat("a/", maxDepth)+"a", "x")),
		"long":                    tarOf(t, file(strings.Repeat("a", maxPath+1), "x")),
		"cut off":                 tarOf(t, file("a", strings.Repeat("x", 4096)))[:2048],
		"no archive":              bytes.Repeat([]byte("x"), 4096),
		"no gzip":                 append([]byte("\x1f\x8b"), bytes.Repeat([]byte("x"), 4096)...),
	} {
		if _, err := f.Put(ctx, "", bytes.NewReader(archive)); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	left, err := filepath.Glob(filepath.Join(f.cfg.Dir, "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left: %q, %v", left, err)
	}
	// The control: a plain tree, with a link that leads to the host, which stays a link.
	name, err := f.Put(ctx, "", bytes.NewReader(tarOf(t, file("a/b", "text"), link("a/l", "/etc/passwd"), tar.Header{Typeflag: tar.TypeLink, Name: "c", Linkname: "a/b"})))
	if err != nil {
		t.Fatal(err)
	}
	u, err := f.open("a", name)
	if err != nil {
		t.Fatal(err)
	}
	defer u.data.Close()
	var got []string
	for _, e := range u.entries {
		b, err := io.ReadAll(u.content(e))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Path+" "+e.Link+string(b))
	}
	if want := "a/b text,a/l /etc/passwd,c text"; strings.Join(got, ",") != want {
		t.Errorf("files: %q, want %s", got, want)
	}
	if _, err := f.open("b", name); api.KindOf(err) != api.KindNotFound {
		t.Errorf("another account opens them: %v", err)
	}
	for _, bad := range []string{"..", "../a", strings.Repeat("g", 64), ""} {
		if _, err := f.open("a", bad); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// zeros are n zero bytes.
type zeros int64

func (z *zeros) Read(p []byte) (int, error) {
	if *z <= 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), int64(*z))
	clear(p[:n])
	*z -= zeros(n)
	return int(n), nil
}

// TestLargeArchive: a small archive that becomes a large file is refused, before it is written whole.
func TestLargeArchive(t *testing.T) {
	f := newFiles(t)
	ctx := api.WithPrincipal(t.Context(), api.Operator())
	huge := func(size int64) io.Reader {
		r, w := io.Pipe()
		go func() {
			z := gzip.NewWriter(w)
			out := tar.NewWriter(z)
			err := out.WriteHeader(&tar.Header{Name: "a", Mode: 0o644, Size: size})
			if err == nil {
				body := zeros(size)
				_, err = io.Copy(out, &body)
			}
			if err == nil {
				err = out.Close()
			}
			if err == nil {
				err = z.Close()
			}
			w.CloseWithError(err)
		}()
		t.Cleanup(func() { r.Close() })
		return r
	}
	if _, err := f.Put(ctx, "", huge(MaxArchive+1)); api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), "more than") {
		t.Errorf("too large: %v", err)
	}
	if _, err := f.Put(ctx, "", huge(8<<20)); err != nil {
		t.Errorf("the control: %v", err)
	}
	if _, err := os.Stat(f.of("")); err != nil {
		t.Error(err)
	}
}

// TestMatch: what a source stands for, and that none leads out of the files.
func TestMatch(t *testing.T) {
	u := &upload{entries: []entry{{Path: "a", Dir: true}, {Path: "a/x.c"}, {Path: "a/y.c"}, {Path: "b.c"}, {Path: "d/e/f"}}}
	for _, tt := range []struct{ source, want string }{
		{"a", "a dir a/x.c a/y.c"},
		{"./a/", "a dir a/x.c a/y.c"},
		{"/b.c", "b.c b.c"},
		{"*.c", "b.c b.c"},
		{"a/*.c", "a/x.c a/x.c|a/y.c a/y.c"},
		{"d", "d dir d/e/f"},
		{"d/*", "d/e dir d/e/f"},
		{"*", "a dir a/x.c a/y.c|b.c b.c|d dir d/e/f"},
		{".", ". dir a a/x.c a/y.c b.c d/e/f"},
		{"../x", "invalid"}, {"a/../../x", "invalid"}, {"[", "invalid"}, {"", "invalid"},
		{"none", "not_found"}, {"a/x.c/y", "not_found"},
	} {
		found, err := u.match([]string{tt.source})
		var got []string
		for _, s := range found {
			line := s.path
			if s.dir {
				line += " dir"
			}
			for _, e := range s.entries {
				line += " " + e.Path
			}
			got = append(got, line)
		}
		text := strings.Join(got, "|")
		if err != nil {
			text = string(api.KindOf(err))
		}
		if text != tt.want {
			t.Errorf("%q: %s (%v), want %s", tt.source, text, err, tt.want)
		}
	}
}

// TestExpand: variables as Dockerfiles have them.
func TestExpand(t *testing.T) {
	lookup := func(name string) (string, error) { return map[string]string{"A": "1", "B": "two words"}[name], nil }
	for in, want := range map[string]string{
		"$A": "1", "${A}x": "1x", "x$B": "xtwo words", `"$B"`: "two words", `'$A'`: "$A", `\$A`: "$A", `a\ b`: "a b",
		"${C:-d}": "d", "${A:-d}": "1", "${A:+y}": "y", "${C:+y}": "", "$": "$", "$1": "$1", `"\n"`: `\n`, "${C:-$A}": "1",
	} {
		if got, err := Expand(in, lookup); err != nil && want != "" || got != want {
			t.Errorf("%s: %q, %v, want %q", in, got, err, want)
		}
	}
	for _, bad := range []string{"${", "${A", "${}", "${A#x}", "'a"} {
		if got, err := Expand(bad, lookup); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%s: %q, %v", bad, got, err)
		}
	}
}

// FuzzArchive: no archive is stored with a path that leads out of it.
func FuzzArchive(f *testing.F) {
	f.Add(tarOf(f, file("a/b", "x"), tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "/"}))
	f.Add(tarOf(f, file("../a", "x")))
	f.Fuzz(func(t *testing.T, b []byte) {
		files := &Files{cfg: FilesConfig{CheckSpace: func(context.Context, string, string, int64) error { return nil }}}
		entries, err := files.read(t.Context(), "", bytes.NewReader(b), io.Discard)
		if err != nil {
			if api.KindOf(err) != api.KindInvalid {
				t.Fatal(err)
			}
			return
		}
		for _, e := range entries {
			if !filepath.IsLocal(e.Path) {
				t.Fatalf("%q", e.Path)
			}
		}
	})
}
