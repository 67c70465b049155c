package filerule_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/repository/filerule"
)

func TestOverlap(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"money.py", "words.py", false},
		{"money.py", "money.py", true},
		{"*.py", "money.py", true},
		{"*.py", "*.go", false},
		{"a*.go", "*b.go", true},
		{"src/*.go", "src/a.go", true},
		{"src/*.go", "src/sub/a.go", false},
		{"src/**", "src/sub/a.go", true},
		{"src/", "src/sub/a.go", true},
		{"src", "src/sub/a.go", false},
		{"src/**/test_*.py", "src/a/b/test_x.py", true},
		{"src/**", "docs/**", false},
		{"**", "docs/x", true},
		{"/Makefile", "Makefile", true},
		{"/Makefile", "sub/Makefile", false},
		{"[ab].go", "c.go", true}, // in doubt
		{"?.go", "ab.go", false},
		{"/a\\*b", "ab", false},
		{"a/**/b", "a/b", true},
		{"**/x/**", "x/y", true},
	} {
		for range 2 {
			if got := filerule.Overlap(test.a, test.b); got != test.want {
				t.Errorf("%s and %s: %v", test.a, test.b, got)
			}
			test.a, test.b = test.b, test.a
		}
	}
}

// TestOverlapIsNeverWrong: two globs of files that a path matches overlap.
func TestOverlapIsNeverWrong(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	name := func(parts ...string) string {
		var b strings.Builder
		for range 1 + r.IntN(3) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		return b.String()
	}
	matches, pairs := 0, 0
	for range 20_000 {
		join := func(word func() string) string {
			all := []string{}
			for range 1 + r.IntN(3) {
				all = append(all, word())
			}
			return strings.Join(all, "/")
		}
		glob := func() string {
			return "/" + join(func() string {
				if r.IntN(4) == 0 {
					return "**"
				}
				return strings.ReplaceAll(strings.ReplaceAll(name("a", "b", "*", "?", "[ab]"), "**", "*"), "**", "*")
			})
		}
		a, b, p := glob(), glob(), join(func() string { return name("a", "b") })
		pairs++
		match := func(g string) bool {
			c, err := filerule.Compile(api.FilePolicy{Writable: []string{g}})
			if err != nil {
				t.Fatal(err)
			}
			// What only a directory above matches is not of a glob of files.
			up, _, below := cutLast(p)
			return c.Refuse(p) == "" && (!below || c.Refuse(up) != "" || strings.HasSuffix(g, "**"))
		}
		if match(a) && match(b) {
			if matches++; !filerule.Overlap(a, b) {
				t.Fatalf("%s and %s both match %s", a, b, p)
			}
		}
	}
	if matches < 100 {
		t.Errorf("only %d of %d pairs match one path", matches, pairs)
	}
}

func cutLast(p string) (before, after string, ok bool) {
	i := strings.LastIndexByte(p, '/')
	if i < 0 {
		return "", p, false
	}
	return p[:i], p[i+1:], true
}
