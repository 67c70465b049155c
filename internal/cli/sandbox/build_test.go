package sandbox

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestPack: what .dockerignore lists is left out, and a link to a file of the host is a link.
func TestPack(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret")
	write := func(name, text string) {
		t.Helper()
		at := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a.txt", "a.key", "sub/b.key", "sub/deep/keep.key", "node_modules/x/y", "tmp1/z", "sub/tmp1"} {
		write(name, name)
	}
	write(".dockerignore", "# comment\n**/*.key\n!sub/deep/keep.key\n/node_modules\ntmp?\n")
	if err := errors.Join(os.WriteFile(outside, []byte("secret of the host"), 0o600), os.Symlink(outside, filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	list, err := readIgnore(root)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := pack(&b, root, list); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(b.Bytes(), []byte("secret of the host")) {
		t.Error("the archive has a file of the host that a link points to")
	}
	var names []string
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		if h.Name == "link" && (h.Typeflag != tar.TypeSymlink || h.Linkname != outside) {
			t.Errorf("link: %+v", h)
		}
	}
	if want := []string{".dockerignore", "a.txt", "link", "sub/", "sub/deep/", "sub/deep/keep.key", "sub/tmp1"}; !slices.Equal(names, want) {
		t.Errorf("archive: %q, want %q", names, want)
	}
}
