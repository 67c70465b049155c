package workspace

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
)

// file is a member of an archive.
type file struct {
	name, text string
	kind       byte
}

func archive(t *testing.T, files ...file) *tar.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Typeflag: f.kind, Mode: 0o644, Size: int64(len(f.text))}
		if f.kind == tar.TypeSymlink {
			h.Linkname, h.Size = f.text, 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if f.kind == tar.TypeReg {
			w.Write([]byte(f.text))
		}
	}
	w.Close()
	return tar.NewReader(&b)
}

// TestReplace: what another machine says has changed becomes the upper layer; what it lies about changes nothing.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	layers, err := layer.New(layer.Config{Dir: filepath.Join(dir, "layers")})
	if err != nil {
		t.Fatal(err)
	}
	base := layer.Digest("sha256-" + strings.Repeat("a", 64))
	_, err = layers.Put(t.Context(), base, func(_ context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		for name, text := range map[string]string{"keep": "keep", "change": "old", "gone/a": "a", "gone/b": "b", "dir/x": "x"} {
			if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
				return layer.Tree{}, err
			}
			if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
				return layer.Tree{}, err
			}
		}
		return layer.Tree{Root: root}, Own(root)
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Config{Dir: filepath.Join(dir, "workspaces"), Layers: layers})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	id, err := s.Create(t.Context(), "", []layer.Digest{base})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Lease(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	tree := func() string {
		var out []string
		if _, err := s.Tree(t.Context(), l.Layers(), l, func(e Entry) error {
			out = append(out, fmt.Sprintf("%s:%.1s:%d", e.Path, e.Mode, e.Size))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return strings.Join(out, " ")
	}
	reg := func(same bool) Remaining { return Remaining{Kind: Regular, Same: same} }
	d := Remaining{Kind: Directory}
	remaining := map[string]Remaining{"keep": reg(true), "change": reg(false), "dir": reg(false), "new": d, "new/f": reg(false), "empty": d, "link": {Kind: Symlink}}
	changed := []file{{"change", "changed", tar.TypeReg}, {"dir", "now a file", tar.TypeReg}, {"new/f", "f", tar.TypeReg}, {"link", "/etc/passwd", tar.TypeSymlink}}
	if err := l.Replace(t.Context(), remaining, archive(t, changed...), 1<<20); err != nil {
		t.Fatal(err)
	}
	const want = "change:r:7 dir:r:10 empty:d:0 keep:r:4 link:s:11 new:d:0 new/f:r:1"
	if got := tree(); got != want {
		t.Fatalf("tree %s; want %s", got, want)
	}
	// A second time, what the first one wrote is the same: it is not in the archive.
	for p, e := range remaining {
		e.Same = true
		remaining[p] = e
	}
	remaining["change"] = reg(false)
	if err := l.Replace(t.Context(), remaining, archive(t, file{"change", "again", tar.TypeReg}), 1<<20); err != nil {
		t.Fatal(err)
	}
	after := strings.Replace(want, "change:r:7", "change:r:5", 1)
	if got := tree(); got != after {
		t.Fatalf("tree %s; want %s", got, after)
	}
	for name, c := range map[string]struct {
		remaining map[string]Remaining
		files     []file
		kind      api.Kind
	}{
		"out of the workspace":      {map[string]Remaining{"../x": reg(false)}, []file{{"../x", "x", tar.TypeReg}}, api.KindUnavailable},
		"an absolute path":          {map[string]Remaining{"/etc/x": reg(false)}, nil, api.KindUnavailable},
		"below a link":              {map[string]Remaining{"l": {Kind: Symlink}, "l/x": reg(false)}, []file{{"l", "/tmp", tar.TypeSymlink}, {"l/x", "x", tar.TypeReg}}, api.KindUnavailable},
		"not asked for":             {map[string]Remaining{"a": reg(false)}, []file{{"a", "a", tar.TypeReg}, {"b", "b", tar.TypeReg}}, api.KindUnavailable},
		"another kind":              {map[string]Remaining{"a": reg(false)}, []file{{"a", "/etc/passwd", tar.TypeSymlink}}, api.KindUnavailable},
		"a device":                  {map[string]Remaining{"a": reg(false)}, []file{{"a", "", tar.TypeChar}}, api.KindUnavailable},
		"missing":                   {map[string]Remaining{"a": reg(false)}, nil, api.KindUnavailable},
		"twice":                     {map[string]Remaining{"a": reg(false)}, []file{{"a", "a", tar.TypeReg}, {"a", "b", tar.TypeReg}}, api.KindUnavailable},
		"more than the maximum":     {map[string]Remaining{"a": reg(false)}, []file{{"a", strings.Repeat("a", 2<<10), tar.TypeReg}}, api.KindExhausted},
		"a file below no directory": {map[string]Remaining{"q/a": reg(false)}, []file{{"q/a", "a", tar.TypeReg}}, api.KindUnavailable},
	} {
		if err := l.Replace(t.Context(), c.remaining, archive(t, c.files...), 1<<10); api.KindOf(err) != c.kind {
			t.Errorf("%s: %v (%s); want %s", name, err, api.KindOf(err), c.kind)
		}
		if got := tree(); got != after {
			t.Fatalf("%s: it changed the workspace to %s", name, got)
		}
	}
}
