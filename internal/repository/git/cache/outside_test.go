package cache

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/test/gittest"
)

const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"

func TestOutside(t *testing.T) {
	ctx := gittest.Context(t)
	marker := filepath.Join(gittest.RealPath(t, t.TempDir()), "ran")
	src := gittest.NewCheckout(t, map[string]string{
		".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "a.bin": pointer, "d/b.bin": pointer, "c.bin": "no pointer", "note.txt": strings.Replace(pointer, "v1", "v2", 1),
	})
	inner := gittest.NewCheckout(t, map[string]string{"x": "1"})
	gittest.Git(t, src, "-c", "protocol.file.allow=always", "submodule", "add", "-q", inner, "sub")
	gittest.Git(t, src, "config", "-f", ".gitmodules", "submodule.sub.url", "https://user:s3cret@example.org/o/sub")
	gittest.Git(t, src, "add", ".gitmodules")
	gittest.Git(t, src, "commit", "-qm", "sub")
	// A filter that would run if anything asked git to smudge.
	gittest.Git(t, src, "config", "filter.lfs.smudge", "touch "+marker)
	gittest.Git(t, src, "config", "filter.lfs.required", "true")
	r := fetch(t, newCache(t), src)
	at := head(t, r)
	files, err := r.Files(ctx, at.Hash)
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.Outside(ctx, files)
	if err != nil {
		t.Fatal(err)
	}
	if out.Pointers != 2 || out.PointerBytes != 24690 {
		t.Errorf("%d pointers of %d bytes", out.Pointers, out.PointerBytes)
	}
	if len(out.Submodules) != 1 || out.Submodules[0].Path != "sub" || out.Submodules[0].URL != "https://example.org/o/sub" || out.Submodules[0].Commit != gittest.Git(t, inner, "rev-parse", "HEAD") {
		t.Errorf("%+v", out.Submodules)
	}
	dir := filepath.Join(gittest.RealPath(t, t.TempDir()), "out")
	res, err := r.Checkout(ctx, at.Hash, dir, CheckoutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "a.bin")); err != nil || string(b) != pointer {
		t.Errorf("the pointer is %q, %v", b, err)
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "sub")); len(entries) != 0 || err != nil && !os.IsNotExist(err) || len(res.Submodules) != 1 {
		t.Errorf("sub: %v, %v, %+v", entries, err, res)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("the filter ran")
	}
	// Control: git's own checkout runs it.
	os.Remove(filepath.Join(src, "a.bin"))
	gittest.TryGit(t, src, "checkout", "--", "a.bin")
	if _, err := os.Stat(marker); err != nil {
		t.Error("control: git did not run the filter")
	}

	// Without the filter in .gitattributes, a pointer is a file like others.
	plain := gittest.NewCheckout(t, map[string]string{"a.bin": pointer})
	r = fetch(t, newCache(t), plain)
	if files, err = r.Files(ctx, head(t, r).Hash); err != nil {
		t.Fatal(err)
	}
	if out, err := r.Outside(ctx, files); err != nil || out.Pointers != 0 || len(out.Submodules) != 0 {
		t.Errorf("%+v, %v", out, err)
	}
}

func FuzzPointer(f *testing.F) {
	f.Add([]byte(pointer))
	f.Add([]byte(strings.Replace(pointer, "size 12345", "size -1", 1)))
	f.Add([]byte("version https://git-lfs.github.com/spec/v1\n"))
	f.Add([]byte("version https://git-lfs.github.com/spec/v1\next-0-foo sha256:aa\n" + pointer[43:]))
	f.Fuzz(func(t *testing.T, b []byte) {
		if size, ok := parsePointer(b); ok && (size < 0 || len(b) >= maxPointer) {
			t.Errorf("%q: %d", b, size)
		}
	})
}

func FuzzModules(f *testing.F) {
	f.Add("submodule.a.path\nsub\x00submodule.a.url\nhttps://u:p@example.org/x\x00")
	f.Add("submodule.a.url\n\x00submodule.b.path\n\x00x")
	f.Fuzz(func(t *testing.T, raw string) {
		for p, u := range parseModules(raw) {
			if !strings.Contains(raw, p) || strings.Contains(u, "\x00") {
				t.Errorf("%q: %q %q", raw, p, u)
			}
		}
	})
}
