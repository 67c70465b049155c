package gate_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"hortus.dev/internal/task/gate"
)

// TestSupport: what tests are made of is known by what it has and who calls it. Programs are not.
func TestSupport(t *testing.T) {
	for _, c := range []struct {
		name, command, want string
		files               map[string]string
	}{
		{"a helper of unittest", "python3 -m unittest", "near.py", map[string]string{"near.py": "import unittest\n", "calc.py": "def mean(xs): pass\n", "test_calc.py": ""}},
		{"assertions of its own", "pytest", "lib/near.py", map[string]string{"lib/near.py": "def assert_near(a, b):\n    assert a == b\n", "lib/calc.py": "def f(): assert 1\n", "lib/test_a.py": ""}},
		{"not where no tests are", "pytest", "", map[string]string{"plugin/near.py": "import pytest\n", "lib/test_a.py": ""}},
		{"a helper of node", "node --test", "near.js", map[string]string{"near.js": "const { test } = require('node:test');\n", "calc.js": "const assert = require('node:assert');\n"}},
		{"a helper of Go", "go test ./...", "near.go", map[string]string{"near.go": "package a\n\nimport (\n\t\"testing\"\n)\n", "a.go": "package a\n"}},
		{"a script of npm", "npm test", "lib/runner.js scripts/all.js", map[string]string{"package.json": `{"scripts": {"test": "npm run unit", "unit": "node scripts/all.js && node lib/runner.js", "build": "node scripts/build.js"}}`,
			"scripts/all.js": "", "lib/runner.js": "", "scripts/build.js": "", "index.js": ""}},
		{"targets and includes", "make test", "checks.inc run-all.sh tools/list.py", map[string]string{"Makefile": "include checks.inc\nPY = python3\ntest: unit\n\tsh run-all.sh calc.py\nunit:\n\t$(PY) tools/list.py\nbuild:\n\tsh run-build.sh\n",
			"checks.inc": "", "run-all.sh": "", "tools/list.py": "", "calc.py": "", "run-build.sh": ""}},
		{"the program itself", "make test", "", map[string]string{"Makefile": "test: prog\n\t./prog < in | diff - want\n\tpython3 main.py\n", "main.py": "", "prog": ""}},
	} {
		tree := gate.Tree{Paths: slices.Sorted(maps.Keys(c.files)), Read: func(p string) []byte { return []byte(c.files[p]) }}
		if got := strings.Join(slices.Sorted(maps.Keys(gate.Support(tree, c.command))), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
