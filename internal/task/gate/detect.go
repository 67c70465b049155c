package gate

import (
	"bytes"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/lazyregexp"
)

// MaxFile is how much of a file Detect wants to read, in bytes.
const MaxFile = 256 << 10

// Tree is a commit as Detect sees it.
type Tree struct {
	// Paths are all files, sorted.
	Paths []string
	// Read gives at most [MaxFile] bytes of one; nil when it cannot be read.
	Read func(path string) []byte
}

// Command is a test command and where it was found.
type Command struct {
	Text string
	From string
}

// Detect finds the command that a repository's tests are run with, from what
// stands at its top level. What its maintainers wrote down comes first (a test
// script of package.json, a test target of a Makefile), then what is usual for the
// language. KindNotFound, with a hint, when nothing is found.
func Detect(t Tree) (Command, error) {
	for _, find := range []func(Tree) Command{npm, makefile, golang, cargo, python, node, maven, gradle} {
		if c := find(t); c.Text != "" {
			return c, nil
		}
	}
	return Command{}, api.Errorf(api.KindNotFound, "the repository has no known test command").
		WithHint("Set the gate command, for example --verify 'make check'.")
}

func (t Tree) has(p string) bool {
	_, ok := slices.BinarySearch(t.Paths, p)
	return ok
}

// first finds a file by its name and its content.
func (t Tree) first(match func(p string) bool, content func([]byte) bool) string {
	const most = 200 // files that are read at most
	n := 0
	for _, p := range t.Paths {
		if !match(p) {
			continue
		}
		if content == nil || content(t.Read(p)) {
			return p
		}
		if n++; n == most {
			break
		}
	}
	return ""
}

func npm(t Tree) Command {
	if !t.has("package.json") {
		return Command{}
	}
	var pkg struct {
		Scripts map[string]json.RawMessage `json:"scripts"`
	}
	var script string
	if json.Unmarshal(t.Read("package.json"), &pkg) != nil || json.Unmarshal(pkg.Scripts["test"], &script) != nil {
		return Command{}
	}
	// What npm init writes is no test.
	if strings.TrimSpace(script) == "" || strings.Contains(script, "no test specified") {
		return Command{}
	}
	from := "scripts.test of package.json"
	if simple.MatchString(script) {
		// Node runs it by itself: no other program has to be in the sandbox.
		return Command{script, from}
	}
	return Command{"npm test --silent", from}
}

// simple is a script that needs nothing of npm's.
var simple = lazyregexp.New(`^node( --?[a-z-]+(=[\w./-]+)?)*( [\w./*-]+)*$`)

var testTarget = lazyregexp.New(`(?m)^(test|check)[ \t]*:([^=]|$)`)

func makefile(t Tree) Command {
	for _, name := range []string{"GNUmakefile", "Makefile", "makefile"} {
		if !t.has(name) {
			continue
		}
		if m := testTarget.FindSubmatch(t.Read(name)); m != nil {
			return Command{"make " + string(m[1]), name}
		}
		break // make reads one of them
	}
	return Command{}
}

func golang(t Tree) Command {
	if t.has("go.mod") {
		return Command{"go test ./...", "go.mod"}
	}
	return Command{}
}

func cargo(t Tree) Command {
	if t.has("Cargo.toml") {
		return Command{"cargo test --quiet", "Cargo.toml"}
	}
	return Command{}
}

func python(t Tree) Command {
	const pytest = "python3 -m pytest -q"
	for _, f := range []struct{ name, mark string }{
		{"pytest.ini", ""}, {"conftest.py", ""}, {"tests/conftest.py", ""}, {"test/conftest.py", ""},
		{"pyproject.toml", "[tool.pytest"}, {"tox.ini", "[pytest]"}, {"setup.cfg", "[tool:pytest]"},
	} {
		if t.has(f.name) && bytes.Contains(t.Read(f.name), []byte(f.mark)) {
			return Command{pytest, f.name}
		}
	}
	named := func(p string) bool {
		b := path.Base(p)
		return path.Ext(b) == ".py" && (strings.HasPrefix(b, "test_") || strings.HasSuffix(b, "_test.py"))
	}
	if p := t.first(named, func(b []byte) bool { return bytes.Contains(b, []byte("pytest")) }); p != "" {
		return Command{pytest, p}
	}
	// unittest finds files by the first of the two names alone.
	unit := func(p string) bool { return named(p) && strings.HasPrefix(path.Base(p), "test") }
	p := t.first(unit, func(b []byte) bool { return bytes.Contains(b, []byte("unittest")) })
	if p == "" {
		if p = t.first(named, nil); p != "" {
			return Command{pytest, p} // plain functions
		}
		return Command{}
	}
	dir := path.Dir(p)
	if dir == "." || t.has(dir+"/__init__.py") {
		return Command{"python3 -m unittest discover", p}
	}
	top, _, _ := strings.Cut(dir, "/")
	if !plain.MatchString(top) {
		return Command{}
	}
	return Command{"python3 -m unittest discover -s " + top, p}
}

// plain is a name that needs no quotes in a shell.
var plain = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

var nodeTest = lazyregexp.New(`(\.|-|_)test\.(js|mjs|cjs)$|(^|/)test-[^/]*\.(js|mjs|cjs)$|(^|/)test\.(js|mjs|cjs)$|(^|/)test/[^/]+\.(js|mjs|cjs)$`)

func node(t Tree) Command {
	p := t.first(nodeTest.MatchString, func(b []byte) bool { return bytes.Contains(b, []byte("node:test")) })
	if p == "" {
		return Command{}
	}
	return Command{"node --test", p}
}

func maven(t Tree) Command {
	if t.has("pom.xml") {
		return Command{"mvn -q -o test", "pom.xml"}
	}
	return Command{}
}

func gradle(t Tree) Command {
	for _, f := range []string{"build.gradle", "build.gradle.kts"} {
		if t.has(f) && t.has("gradlew") {
			return Command{"./gradlew --offline test", f}
		}
	}
	return Command{}
}

var lintTarget = lazyregexp.New(`(?m)^lint[ \t]*:([^=]|$)`)

// Lint finds the lint command of a repository in what its maintainers wrote down: a script of package.json, or a target of a
// Makefile. The zero Command means that there is none.
func Lint(t Tree) Command {
	var pkg struct {
		Scripts map[string]json.RawMessage `json:"scripts"`
	}
	var script string
	if t.has("package.json") && json.Unmarshal(t.Read("package.json"), &pkg) == nil &&
		json.Unmarshal(pkg.Scripts["lint"], &script) == nil && strings.TrimSpace(script) != "" {
		return Command{"npm run --silent lint", "scripts.lint of package.json"}
	}
	for _, name := range []string{"GNUmakefile", "Makefile", "makefile"} {
		if !t.has(name) {
			continue
		}
		if lintTarget.Match(t.Read(name)) {
			return Command{"make lint", name}
		}
		break // make reads one of them
	}
	return Command{}
}

// SaysLint reports whether a file is one in which Lint looks.
func SaysLint(path string) bool {
	return slices.Contains([]string{"package.json", "GNUmakefile", "Makefile", "makefile"}, path)
}
