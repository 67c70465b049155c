package gate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
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

// Command is a test command, and in words where it was found and why it was chosen.
type Command struct {
	Text string
	From string
}

// rank says how sure it is that a command runs tests; the first is the surest.
type rank int

const (
	runsTests   rank = iota // maintainers wrote it down, and it runs a test runner
	builtTests              // what CMake registers as tests
	ownTests                // maintainers wrote it down under the name test, and what it runs is not known
	usualTests              // the usual runner of a language that the files fit
	ownCheck                // maintainers wrote it down under the name check, and what it runs is not known
	likelyTests             // files have names of tests
	onlyLints               // it runs linters and nothing else: never chosen
)

// candidate is a command that Detect chooses from.
type candidate struct {
	Command
	rank rank
	// is names it, and runs what it runs, for the sentence that explains the choice of another one.
	is, runs string
}

// Detect finds the command that a repository's tests are run with. What runs a test runner comes first: a script of package.json or a
// target of the Makefile of which that can be seen, then what is usual for the language. A script or a target that only runs linters is
// never chosen. KindNotFound, with a hint, when nothing is found.
func Detect(t Tree) (Command, error) {
	all := find(t)
	if len(all) == 0 {
		return Command{}, api.Errorf(api.KindNotFound, "the repository has no known test command").WithHint(noCommand)
	}
	best := all[0]
	if best.rank == onlyLints {
		return Command{}, api.Errorf(api.KindNotFound, "the repository has no known test command: %s", best.instead()).WithHint(noCommand)
	}
	// What a person may have expected instead.
	for _, c := range all[1:] {
		if c.runs != "" && c.is != best.is && (c.rank == onlyLints || best.rank == builtTests) {
			best.From += "; " + c.instead()
			break
		}
	}
	return best.Command, nil
}

// find returns the candidates, the surest first.
func find(t Tree) (all []candidate) {
	for _, f := range []func(Tree) []candidate{npm, makefile, cmake, golang, cargo, python, tox, node, maven, gradle} {
		all = append(all, f(t)...)
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(a.rank, b.rank) })
	return all
}

// Candidate is a command that Detect chooses from, and in words why it is there.
type Candidate struct {
	Command
	Why string
}

// Candidates lists the commands that Detect chooses from, the surest first. One that only runs linters is there with that reason.
func Candidates(t Tree) (out []Candidate) {
	for _, c := range find(t) {
		why := reasons[c.rank]
		if c.runs != "" {
			why += ": it runs " + c.runs
		}
		out = append(out, Candidate{c.Command, why})
	}
	return out
}

// reasons say why a candidate has its rank.
var reasons = [...]string{
	runsTests:   "the repository names it, and it runs tests",
	builtTests:  "the repository registers its tests with CMake",
	ownTests:    "the repository names it for tests, but not what it runs",
	usualTests:  "it is usual for this language",
	ownCheck:    "the repository names it for checks, but not what it runs",
	likelyTests: "files have the names of tests",
	onlyLints:   "it runs linters and no tests, so it is never chosen",
}

const noCommand = "Set the gate command, for example --verify 'make check'."

// instead says why a candidate was not chosen.
func (c candidate) instead() string {
	if c.rank == onlyLints {
		return c.is + " only runs " + c.runs
	}
	return c.is + " runs " + c.runs
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

// scripts are those of the package.json at the top; nil if there are none.
func scripts(t Tree) map[string]string {
	var pkg struct {
		Scripts map[string]json.RawMessage `json:"scripts"`
	}
	if !t.has("package.json") || json.Unmarshal(t.Read("package.json"), &pkg) != nil {
		return nil
	}
	out := map[string]string{}
	for name, raw := range pkg.Scripts {
		var text string
		// What npm init writes is no test.
		if json.Unmarshal(raw, &text) == nil && strings.TrimSpace(text) != "" && !strings.Contains(text, "no test specified") {
			out[name] = text
		}
	}
	return out
}

// TestsAlone returns a command for the last part of npm's script test, which runs other scripts first, such as a build and formatters; empty
// if the command is not npm test, or has no such parts.
func TestsAlone(t Tree, command string) string {
	all := scripts(t)
	parts := strings.Split(all["test"], "&&")
	m := npmRun.FindStringSubmatch(strings.TrimSpace(parts[len(parts)-1]))
	if !strings.HasPrefix(command+" ", "npm test ") || len(parts) < 2 || m == nil || all[m[1]] == "" {
		return ""
	}
	return "npm run --silent " + m[1]
}

// npmRun is the call of a script of package.json.
var npmRun = lazyregexp.New(`^npm run (?:--silent |-s )?([A-Za-z0-9][A-Za-z0-9:._-]*)$`)

func npm(t Tree) (out []candidate) {
	all := scripts(t)
	for _, name := range []string{"test", "tests", "test:unit", "unit"} {
		script, ok := all[name]
		if !ok {
			continue
		}
		d := ofScript(all, name)
		is := "scripts." + name + " of package.json"
		c := candidate{Command{"npm run --silent " + name, is}, ownTests, is, d.says()}
		if name == "test" {
			c.Text = "npm test --silent"
		}
		switch {
		case len(d.tests) > 0:
			c.rank = runsTests
		case d.onlyLints():
			c.rank = onlyLints
		case name != "test":
			continue
		}
		if simple.MatchString(script) {
			c.Text = script // Node runs it by itself: no other program has to be in the sandbox
		} else if c.runs != "" {
			c.From += " runs " + c.runs
		}
		out = append(out, c)
	}
	return out
}

// simple is a script that needs nothing of npm's.
var simple = lazyregexp.New(`^node( --?[a-z-]+(=[\w./-]+)?)*( [\w./*-]+)*$`)

// ofScript looks into a script, and into those that it calls.
func ofScript(all map[string]string, name string) does {
	var d does
	seen := map[string]bool{}
	const mostPatterns = 20
	patterns := 0
	var look func(name string) bool
	look = func(name string) bool {
		var match []string
		if _, ok := all[name]; ok {
			match = []string{name}
		} else if patterns++; strings.Contains(name, "*") && patterns <= mostPatterns {
			for _, script := range slices.Sorted(maps.Keys(all)) {
				if ok, err := path.Match(name, script); ok && err == nil {
					match = append(match, script)
				}
			}
		}
		for _, script := range match {
			if seen[script] {
				continue
			}
			seen[script] = true
			for _, c := range commandsOf(all[script]) {
				d.classify(c, look, func(string) bool { return false })
			}
		}
		return len(match) > 0
	}
	look(name)
	return d
}

var cmakeTests = lazyregexp.New(`(?im)^[ \t]*(?:enable_testing[ \t]*\(|add_test[ \t]*\(|include[ \t]*\([ \t]*CTest[ \t]*\))`)

func cmake(t Tree) []candidate {
	if !t.has("CMakeLists.txt") || !cmakeTests.Match(t.Read("CMakeLists.txt")) {
		return nil
	}
	dir := "build"
	if slices.ContainsFunc(t.Paths, func(p string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }) {
		dir = "cmake-build"
	}
	// By itself, ctest succeeds without a test.
	return []candidate{{Command{"cmake -B " + dir + " && cmake --build " + dir + " && ctest --test-dir " + dir + " --output-on-failure --no-tests=error", "found ctest in CMakeLists.txt"}, builtTests, "CMakeLists.txt", ""}}
}

// maxModules bounds the modules of one repository that its gate tests.
const maxModules = 10

func golang(t Tree) []candidate {
	const most = 5 * maxModules
	var nested []string // modules further down
	for _, p := range t.Paths {
		if len(nested) == most {
			break
		}
		dir, base := path.Split(p)
		if dir = strings.TrimSuffix(dir, "/"); base == "go.mod" && dir != "" && modulePath.MatchString(dir) && !aside.MatchString("/"+dir+"/") {
			nested = append(nested, dir)
		}
	}
	one := func(text, from string) []candidate {
		return []candidate{{Command{text, from}, usualTests, from, ""}}
	}
	switch {
	case t.has("go.work"):
		// In a workspace one run tests several modules.
		text, work := "go test", string(t.Read("go.work"))
		var used []string
		for _, dir := range append([]string{"."}, nested...) {
			if dir == "." && !t.has("go.mod") || dir != "." && !usesModule(work, dir) {
				continue
			}
			used = append(used, dir)
			if text += " ./" + dir + "/..."; dir == "." {
				text = "go test ./..."
			}
		}
		if len(used) > 0 {
			return one(text, fmt.Sprintf("go.work has %d modules", len(used)))
		}
	case t.has("go.mod") && len(nested) > 0:
		return one("go test ./...", fmt.Sprintf("go.mod; modules of their own are not tested: %s", strings.Join(nested[:min(3, len(nested))], ", ")))
	case t.has("go.mod"):
		return one("go test ./...", "go.mod")
	case len(nested) == 1:
		return one("cd "+nested[0]+" && go test ./...", nested[0]+"/go.mod")
	case len(nested) > 1 && len(nested) <= maxModules:
		var all []string
		for _, dir := range nested {
			all = append(all, "(cd "+dir+" && go test ./...)")
		}
		return one(strings.Join(all, " && "), fmt.Sprintf("go.mod of %d modules", len(nested)))
	}
	return nil
}

var (
	modulePath = lazyregexp.New(`^[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)*$`)
	// aside are directories whose programs are no part of what a repository is about.
	aside = lazyregexp.New(`/(?:vendor|testdata|examples?|third_party|node_modules|docs?)/`)
)

// usesModule reports whether a go.work names a directory.
func usesModule(work, dir string) bool {
	for line := range strings.Lines(work) {
		line, _, _ = strings.Cut(line, "//")
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "use "))
		if line != "" && path.Clean(strings.Trim(line, "\"`()")) == dir {
			return true
		}
	}
	return false
}

func cargo(t Tree) []candidate {
	if !t.has("Cargo.toml") {
		return nil
	}
	text, from := "cargo test --quiet", "Cargo.toml"
	if b := string(t.Read("Cargo.toml")); tomlTable(b, "workspace") {
		from = "Cargo.toml has a workspace"
		if tomlTable(b, "package") {
			text = "cargo test --workspace --quiet" // otherwise only the package at the top is tested
		}
	}
	return []candidate{{Command{text, from}, usualTests, "Cargo.toml", ""}}
}

// tomlTable reports whether a table begins in a file of TOML.
func tomlTable(text, name string) bool {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "["+name+"]" {
			return true
		}
	}
	return false
}

func python(t Tree) []candidate {
	const pytest = "python3 -m pytest -q"
	for _, f := range []struct{ name, mark string }{
		{"pytest.ini", ""}, {".pytest.ini", ""}, {"conftest.py", ""}, {"tests/conftest.py", ""}, {"test/conftest.py", ""},
		{"pyproject.toml", "[tool.pytest"}, {"tox.ini", "[pytest]"}, {"setup.cfg", "[tool:pytest]"},
	} {
		if t.has(f.name) && bytes.Contains(t.Read(f.name), []byte(f.mark)) {
			return []candidate{{Command{pytest, f.name}, usualTests, f.name, ""}}
		}
	}
	c := pythonFiles(t, pytest)
	if c.Text == "" {
		return nil
	}
	// Files with names of tests in a project that says how it is tested are its tests.
	c.rank, c.is = likelyTests, c.From
	for _, name := range []string{"tox.ini", "noxfile.py", "setup.cfg", "pyproject.toml", "setup.py"} {
		if t.has(name) {
			c.rank = usualTests
			if (name == "tox.ini" || name == "noxfile.py") && bytes.Contains(t.Read(name), []byte("pytest")) {
				c.Command = Command{pytest, name + " runs pytest"}
			}
			break
		}
	}
	return []candidate{c}
}

// pythonFiles finds the command by files with names of tests.
func pythonFiles(t Tree, pytest string) (c candidate) {
	named := func(p string) bool {
		b := path.Base(p)
		return path.Ext(b) == ".py" && (strings.HasPrefix(b, "test_") || strings.HasSuffix(b, "_test.py"))
	}
	if p := t.first(named, func(b []byte) bool { return bytes.Contains(b, []byte("pytest")) }); p != "" {
		c.Command = Command{pytest, p}
		return c
	}
	// unittest finds files by the first of the two names alone.
	unit := func(p string) bool { return named(p) && strings.HasPrefix(path.Base(p), "test") }
	p := t.first(unit, func(b []byte) bool { return bytes.Contains(b, []byte("unittest")) })
	if p == "" {
		if p = t.first(named, nil); p != "" {
			c.Command = Command{pytest, p} // plain functions
		}
		return c
	}
	dir := path.Dir(p)
	if dir == "." || t.has(dir+"/__init__.py") {
		c.Command = Command{"python3 -m unittest discover", p}
		return c
	}
	top, _, _ := strings.Cut(dir, "/")
	if plain.MatchString(top) {
		c.Command = Command{"python3 -m unittest discover -s " + top, p}
	}
	return c
}

// plain is a name that needs no quotes in a shell.
var plain = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// tox finds what makes environments of its own, which comes after what runs the tests in the one that is there.
func tox(t Tree) []candidate {
	for _, f := range []struct{ name, text string }{{"tox.ini", "tox -q"}, {"noxfile.py", "nox"}} {
		if t.has(f.name) {
			return []candidate{{Command{f.text, f.name}, likelyTests, f.name, ""}}
		}
	}
	return nil
}

var nodeTest = lazyregexp.New(`(\.|-|_)test\.(js|mjs|cjs)$|(^|/)test-[^/]*\.(js|mjs|cjs)$|(^|/)test\.(js|mjs|cjs)$|(^|/)test/[^/]+\.(js|mjs|cjs)$`)

func node(t Tree) []candidate {
	p := t.first(nodeTest.MatchString, func(b []byte) bool { return bytes.Contains(b, []byte("node:test")) })
	if p == "" {
		return nil
	}
	return []candidate{{Command{"node --test", p}, likelyTests, p, ""}}
}

func maven(t Tree) []candidate {
	if t.has("pom.xml") {
		return []candidate{{Command{"mvn -q -o test", "pom.xml"}, usualTests, "pom.xml", ""}}
	}
	return nil
}

func gradle(t Tree) []candidate {
	for _, f := range []string{"build.gradle", "build.gradle.kts"} {
		if t.has(f) && t.has("gradlew") {
			return []candidate{{Command{"./gradlew --offline test", f}, usualTests, f, ""}}
		}
	}
	return nil
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
