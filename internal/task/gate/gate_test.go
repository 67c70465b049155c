package gate_test

import (
	"maps"
	"slices"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/task/gate"
)

func tree(files map[string]string) gate.Tree {
	return gate.Tree{
		Paths: slices.Sorted(maps.Keys(files)),
		Read: func(p string) []byte {
			if s, ok := files[p]; ok {
				return []byte(s)
			}
			return nil
		},
	}
}

func TestDetect(t *testing.T) {
	type files = map[string]string
	for _, c := range []struct {
		name  string
		files files
		want  string
		from  string
	}{
		{"nothing", files{"README.md": "x"}, "", ""},
		{"an empty repository", files{}, "", ""},
		{"go", files{"go.mod": "module x", "a.go": ""}, "go test ./...", "go.mod"},
		{"a go module further down", files{"sub/go.mod": "module x"}, "cd sub && go test ./...", "sub/go.mod"},
		{"npm", files{"package.json": `{"scripts":{"test":"jest --ci"}}`}, "npm test --silent", "scripts.test of package.json runs jest"},
		{"npm with node alone", files{"package.json": `{"scripts":{"test":"node --test"}}`}, "node --test", "scripts.test of package.json"},
		{"npm with node and files", files{"package.json": `{"scripts":{"test":"node --test test/*.js"}}`}, "node --test test/*.js", "scripts.test of package.json"},
		{"npm with more than node", files{"package.json": `{"scripts":{"test":"node a.js && rm -rf x"}}`}, "npm test --silent", "scripts.test of package.json runs node a.js"},
		{"npm init", files{"package.json": `{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}`}, "", ""},
		{"a broken package.json", files{"package.json": `{"scripts":`}, "", ""},
		{"a script that is no string", files{"package.json": `{"scripts":{"test":7,"build":[]}}`}, "", ""},
		{"npm init, node tests", files{"package.json": `{}`, "test/a.test.js": `require("node:test")`}, "node --test", "test/a.test.js"},
		{"make", files{"Makefile": "build:\n\tgo build\n\ntest: build\n\tgo test\n", "go.mod": ""}, "make test", "the target test of the Makefile runs go test"},
		{"make check", files{"Makefile": "check:\n\ttrue\n"}, "make check", "the target check of the Makefile"},
		{"a variable is no target", files{"Makefile": "test := 1\ntests:\n", "go.mod": ""}, "go test ./...", "go.mod"},
		{"make reads one file", files{"GNUmakefile": "all:\n", "Makefile": "test:\n"}, "", ""},
		{"cargo", files{"Cargo.toml": ""}, "cargo test --quiet", "Cargo.toml"},
		{"pytest by configuration", files{"pyproject.toml": "[tool.pytest.ini_options]\n", "x.py": ""}, "python3 -m pytest -q", "pyproject.toml"},
		{"a pyproject without pytest", files{"pyproject.toml": "[project]\n", "test_x.py": "import unittest"}, "python3 -m unittest discover", "test_x.py"},
		{"pytest by import", files{"tests/test_x.py": "import pytest"}, "python3 -m pytest -q", "tests/test_x.py"},
		{"unittest in a directory", files{"tests/test_x.py": "import unittest"}, "python3 -m unittest discover -s tests", "tests/test_x.py"},
		{"unittest in a package", files{"tests/__init__.py": "", "tests/test_x.py": "import unittest"}, "python3 -m unittest discover", "tests/test_x.py"},
		{"plain functions", files{"test_x.py": "def test_a(): assert 1"}, "python3 -m pytest -q", "test_x.py"},
		{"a directory with a hostile name", files{"$(touch x)/test_x.py": "import unittest"}, "", ""},
		{"gradle without its wrapper", files{"build.gradle": ""}, "", ""},
		{"gradle", files{"build.gradle": "", "gradlew": ""}, "./gradlew --offline test", "build.gradle"},
		{"maven", files{"pom.xml": ""}, "mvn -q -o test", "pom.xml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := gate.Detect(tree(c.files))
			if got.Text != c.want || got.From != c.from {
				t.Errorf("%+v, want %q from %q", got, c.want, c.from)
			}
			if (api.KindOf(err) == api.KindNotFound) != (c.want == "") {
				t.Error(err)
			}
		})
	}
}

func TestWatched(t *testing.T) {
	for p, want := range map[string]bool{
		"test_a.py": true, "pkg/a_test.go": true, "src/a.test.ts": true, "src/a.spec.jsx": true, "tests/data/x.bin": true,
		"src/__tests__/a.js": true, "conftest.py": true, "a/b/conftest.py": true, "package.json": true, "Makefile": true,
		"jest.config.mjs": true, "sitecustomize.py": true, "evil.pth": true, "unittest.py": true, "unittest/__init__.py": true,
		"Tests/A.py": true, "src/test/java/ATest.java": true, "FooTest.java": true, "main_test.go": true, "testdata/golden": true, "test.sh": true, "tools/verify.sh": true,
		"a.py": false, "latest.py": false, "contest.go": false, "src/attest.js": false, "README.md": false, "src/json.py": false,
		"cmd/main.go": false, "lib/protest.rb": false, "docs/tests.md": false,
	} {
		if got := gate.Watched("sh tools/verify.sh && ./go test ./...", p, nil); got != want {
			t.Errorf("%s: %v, want %v", p, got, want)
		}
	}
}

func FuzzDetect(f *testing.F) {
	f.Add("package.json", `{"scripts":{"test":"node"}}`)
	f.Add("Makefile", "test:")
	f.Fuzz(func(t *testing.T, name, content string) {
		c, err := gate.Detect(tree(map[string]string{name: content, "x": content}))
		if (c.Text == "") != (err != nil) {
			t.Errorf("%+v %v", c, err)
		}
		gate.Watched(content, name, nil)
	})
}

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
