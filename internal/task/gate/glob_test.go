package gate_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"hortus.dev/internal/task/gate"
)

// TestGlobs: files that a glob of the command names are tests if the command could execute them, and no others.
func TestGlobs(t *testing.T) {
	for _, c := range []struct {
		command, path string
		want          bool
	}{
		{"for t in *_check.sh; do sh $t || exit 1; done", "sum_check.sh", true},
		{"for t in *_check.sh; do sh $t || exit 1; done", "sum.sh", false},
		{"for t in *_check.sh; do sh $t || exit 1; done", "lib/sum_check.sh", false},
		{"for t in *_check.sh; do sh \"${t}\" || exit 1; done", "sum_check.sh", true},
		{"for t in ./*_check.sh; do $t || exit 1; done", "sum_check.sh", true},
		{"for t in qa/*/run; do ./$t || exit 1; done", "qa/sum/run", true},
		{"for t in qa/*/run; do ./$t || exit 1; done", "qa/sum/more/run", false},
		{"for t in qa/*/run; do ./$t || exit 1; done", "qa/sum/data", false},
		{"for t in /workspace/qa/c?.sh; do sh $t; done", "qa/c1.sh", true},
		{"for t in qa/c[0-9].sh; do sh $t; done", "qa/c1.sh", true},
		{"for t in qa/c[!0-9].sh; do sh $t; done", "qa/c1.sh", false},
		{"for t in $(ls *_check.sh); do sh $t; done", "sum_check.sh", true},
		{"for t in `ls *_check.sh`; do sh $t; done", "sum_check.sh", true},
		{"for t in $(find . -name '*_check.sh'); do sh $t; done", "lib/sum_check.sh", true},
		{"cd qa && for t in *.sh; do sh $t || exit 1; done", "qa/sum.sh", true},
		{"cd qa && for t in *.sh; do sh $t || exit 1; done", "sum.sh", false},
		{"set -e; for t in \"$PWD\"/qa/*.sh; do sh $t; done", "qa/sum.sh", true},
		{"sh -c 'for t in *_check.sh; do sh $t || exit 1; done'", "sum_check.sh", true},
		{"sh *_check.sh", "sum_check.sh", true},
		{". ./*_check.sh", "sum_check.sh", true},
		{"timeout 10 python3 qa/*_checks.py", "qa/a_checks.py", true},
		{"node --test 'qa/**/*.mjs'", "qa/a/b/sum.mjs", true},
		{"node --test 'qa/**/*.mjs'", "qa/sum.mjs", true},
		{"node --test 'qa/**/*.mjs'", "lib/sum.mjs", false},
		{"python3 -m unittest discover -p 'check_*.py'", "lib/check_a.py", true},
		{"find qa -name '*.case' -exec sh {} \\;", "qa/a/sum.case", true},
		{"find . -name '*_check.sh' | xargs -n 1 sh", "lib/sum_check.sh", true},
		{"ls *_check.sh | while read t; do sh $t || exit 1; done", "sum_check.sh", true},
		{"./run --cases=qa/*.case", "qa/sum.case", true},
		// What is only read is what is tested.
		{"for f in *.sh; do shellcheck $f; done; sh qa.sh", "sum.sh", false},
		{"ls *.sh && sh qa.sh", "sum.sh", false},
		{"shellcheck *.sh && sh qa.sh", "sum.sh", false},
		{"gcc -o sum *.c && ./sum", "sum.c", false},
		{"for f in *.c; do gcc -c $f; done; ./all", "sum.c", false},
		{"python3 -m py_compile *.py && python3 -m unittest", "calc.py", false},
		{"python3 -m doctest *.py", "calc.py", false},
		{"grep -q TODO src/*.py || pytest", "src/calc.py", false},
		{"case $CI in *.sh) exit 1;; esac", "sum.sh", false},
		{"sh qa.sh > *.log", "a.log", false},
		{"sh [", "[", true}, // no glob, and a word
		{"sh [*", "a", false},
	} {
		if got := gate.Watched(c.command, c.path, nil); got != c.want {
			t.Errorf("%s: %s: %v, want %v", c.command, c.path, got, c.want)
		}
	}
}

// TestGlobsOfRecipes: a glob in what the command calls names files too.
func TestGlobsOfRecipes(t *testing.T) {
	files := map[string]string{
		"Makefile": "test:\n\tfor t in *_check.sh; do sh $$t || exit 1; done\nrelease:\n\tfor t in *.rel; do sh $$t; done\n", "sum_check.sh": "", "sum.sh": "", "a.rel": "",
	}
	tree := gate.Tree{Paths: slices.Sorted(maps.Keys(files)), Read: func(p string) []byte { return []byte(files[p]) }}
	if got := strings.Join(slices.Sorted(maps.Keys(gate.Support(tree, "make test"))), " "); got != "sum_check.sh" {
		t.Errorf("%q", got)
	}
}
