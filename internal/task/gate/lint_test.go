package gate_test

import (
	"slices"
	"testing"

	"hortus.dev/internal/task/gate"
)

func TestLint(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"none", map[string]string{"go.mod": "module x"}, ""},
		{"a script", map[string]string{"package.json": `{"scripts": {"lint": "eslint ."}}`}, "npm run --silent lint"},
		{"an empty script", map[string]string{"package.json": `{"scripts": {"lint": " "}}`}, ""},
		{"a target", map[string]string{"Makefile": "test:\n\ttrue\nlint: deps\n\tvet\n"}, "make lint"},
		{"a variable", map[string]string{"Makefile": "lint := vet\n"}, ""},
		{"the file that make reads", map[string]string{"GNUmakefile": "all:\n", "Makefile": "lint:\n"}, ""},
	} {
		tree := gate.Tree{Read: func(p string) []byte { return []byte(c.files[p]) }}
		for p := range c.files {
			tree.Paths = append(tree.Paths, p)
		}
		slices.Sort(tree.Paths)
		if got := gate.Lint(tree).Text; got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
