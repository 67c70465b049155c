package lattice

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// An edge is an import between two packages whose folders part at one point of the tree:
// the folders from and to have the same parent.
type edge struct{ from, to, because string }

// folderEdges groups imports by the folder in which they happen. An import of a/b/c by a/d/e
// is an edge from a/d to a/b inside a. A package that imports a folder above or below its
// own is no edge: a contract and its implementations share a folder.
func folderEdges(pkgs map[string][]string) map[string][]edge {
	inside := map[string][]edge{}
	for _, pkg := range slices.Sorted(maps.Keys(pkgs)) {
		for _, imp := range pkgs[pkg] {
			to, ok := strings.CutPrefix(imp, module)
			if !ok {
				continue
			}
			a, b := strings.Split(pkg, "/"), strings.Split(to, "/")
			n := 0
			for n < len(a) && n < len(b) && a[n] == b[n] {
				n++
			}
			if n < len(a) && n < len(b) {
				parent := path.Join(a[:n]...)
				inside[parent] = append(inside[parent], edge{a[n], b[n], pkg + " imports " + to})
			}
		}
	}
	return inside
}

// folderCircle returns the imports that make a circle of folders, or nil.
func folderCircle(edges []edge) []edge {
	out := map[string][]edge{}
	for _, e := range edges {
		if !slices.ContainsFunc(out[e.from], func(known edge) bool { return known.to == e.to }) {
			out[e.from] = append(out[e.from], e)
		}
	}
	done := map[string]bool{}
	var walk []edge
	var visit func(folder string) []edge
	visit = func(folder string) []edge {
		if at := slices.IndexFunc(walk, func(e edge) bool { return e.from == folder }); at >= 0 {
			return slices.Clone(walk[at:])
		}
		if done[folder] {
			return nil
		}
		for _, e := range out[folder] {
			walk = append(walk, e)
			if circle := visit(e.to); circle != nil {
				return circle
			}
			walk = walk[:len(walk)-1]
		}
		done[folder] = true
		return nil
	}
	for _, folder := range slices.Sorted(maps.Keys(out)) {
		if circle := visit(folder); circle != nil {
			return circle
		}
	}
	return nil
}

// TestFolders wants no circle of folders, at any depth of the tree: of two folders with the
// same parent, one may stand on the other, never both on each other.
func TestFolders(t *testing.T) {
	for parent, edges := range folderEdges(packages(t, "../..")) {
		if circle := folderCircle(edges); circle != nil {
			var b strings.Builder
			for _, e := range circle {
				fmt.Fprintf(&b, "\n  %s -> %s: %s", e.from, e.to, e.because)
			}
			t.Errorf("the folders of %q form a circle: move a package to the folder that it belongs to%s", parent, b.String())
		}
	}
}

// TestFoldersCanFail shows that the check sees circles, and only circles.
func TestFoldersCanFail(t *testing.T) {
	for name, c := range map[string]struct {
		pkgs   map[string][]string
		circle int // number of folders in it
	}{
		"no circle":             {map[string][]string{"a/x": {module + "b/x", module + "c"}, "b/y": {module + "c"}, "c": nil}, 0},
		"no circle of packages": {map[string][]string{"a/x": {module + "b/x"}, "b/y": {module + "a/y"}}, 2},
		"three folders":         {map[string][]string{"a/x": {module + "b/x"}, "b/y": {module + "c/y"}, "c": {module + "a"}}, 3},
		"deeper":                {map[string][]string{"a/b/x": {module + "a/c/x"}, "a/c/y": {module + "a/b/y"}}, 2},
		"up and down":           {map[string][]string{"a": {module + "a/b"}, "a/c": {module + "a"}}, 0},
		"other modules":         {map[string][]string{"a": {"example.org/b"}, "b": {"example.org/a"}}, 0},
	} {
		found := 0
		for _, edges := range folderEdges(c.pkgs) {
			found += len(folderCircle(edges))
		}
		if found != c.circle {
			t.Errorf("%s: a circle of %d folders was found, want %d", name, found, c.circle)
		}
	}
}
