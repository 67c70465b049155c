package sandbox

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/internal/cli/localfile"
)

func TestParsePlace(t *testing.T) {
	for in, want := range map[string]place{
		"i4f2:/a/b": {"i4f2", "/a/b"}, "./a:b": {"", "./a:b"}, "a": {"", "a"}, "-": {"", "-"}, "x:y:z": {"x", "y:z"}, "/a:b": {"", "/a:b"},
	} {
		if got, err := parsePlace(in); err != nil || got != want {
			t.Errorf("parsePlace(%q) = %+v, %v; want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "i4f2:", "A B:/x", "i4:\x00"} {
		if got, err := parsePlace(in); err == nil {
			t.Errorf("parsePlace(%q) = %+v; want an error", in, got)
		}
	}
}

func FuzzPlaceAndName(f *testing.F) {
	for _, s := range []string{"i4f2:/a", "../x", "a/../../b", "-", "/abs", "a:", "..", ".", "a\nb", "con/.."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if p, err := parsePlace(s); err == nil && p.path == "" {
			t.Fatalf("parsePlace(%q) gave no path", s)
		}
		if localfile.ValidPath(s) && (strings.HasPrefix(s, "/") || s == ".." || strings.HasPrefix(s, "../")) {
			t.Fatalf("insideName(%q)", s)
		}
	})
}

// TestInside: no chain of links that are inside leads out. The last row of the refused is one that
// does, although it does not by its text: d is a/b/c/d -> ../../.., and d/.. is above the tree.
func TestInside(t *testing.T) {
	for _, c := range []struct {
		at, target string
		ok         bool
	}{
		{"l", "f", true}, {"l", "./a//b", true}, {"a/l", "../f", true}, {"a/l", "..", true}, {"a/b/l", "../../c/f", true}, {"l", ".", true},
		{"l", "..", false}, {"a/l", "../../f", false}, {"l", "/f", false}, {"l", "", false}, {"l", "a/../f", false}, {"l", "a/b/c/d/../../x", false},
	} {
		if inside(c.at, c.target) != c.ok {
			t.Errorf("%s -> %s: %v", c.at, c.target, !c.ok)
		}
	}
}

// FuzzInside: what the file system makes of two links that a sandbox gave is inside.
func FuzzInside(f *testing.F) {
	f.Add("a/b/l", "../../a", "a/m", "b/l/x", "")
	f.Add("x", ".", "x/l", "..", "x") // a directory that is a link, too
	f.Fuzz(func(t *testing.T, at1, target1, at2, target2, dir string) {
		top := t.TempDir()
		tree := filepath.Join(top, "tree")
		root, err := os.OpenRoot(top)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		var c copier
		for _, l := range []link{{at1, target1}, {at2, target2}} {
			if !localfile.ValidPath(l.path) || path.Clean(l.path) != l.path || strings.ContainsRune(l.target, 0) || len(l.target) > 1000 || !inside(l.path, l.target) {
				return
			}
			if root.MkdirAll(path.Dir("tree/"+l.path), 0o755) != nil {
				return
			}
			c.links = append(c.links, link{"tree/" + l.path, l.target})
		}
		if localfile.ValidPath(dir) {
			_ = root.MkdirAll("tree/"+dir, 0o755)
		}
		if err := c.makeLinks(root); err != nil {
			t.Fatal(err)
		}
		for _, at := range []string{at1, at2} {
			real, err := filepath.EvalSymlinks(filepath.Join(tree, at))
			if err == nil && real != tree && !strings.HasPrefix(real, tree+"/") {
				t.Errorf("%q -> %q, %q -> %q: %s", at1, target1, at2, target2, real)
			}
		}
	})
}
