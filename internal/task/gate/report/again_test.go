package report

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// reportOf is a report with outcomes by name, as "name=failed".
func reportOf(runner string, tests ...string) Report {
	r := Report{Runner: runner, Began: true, Ended: true}
	for _, t := range tests {
		i := strings.LastIndexByte(t, '=')
		r.add(t[:i], Outcome(t[i+1:]))
	}
	return r
}

func TestAgain(t *testing.T) {
	for _, tt := range []struct {
		name, command string
		failed        []string // tests
		broken        string   // a package
		want          string   // the command; empty for none
	}{
		{"go", "go test ./...", []string{"x.org/p.TestA", "x.org/p.TestA/b.c", "x.org/p.TestB"}, "x.org/p", "go test -json -count=1 -run '^(TestA|TestB)$' 'x.org/p'"},
		{"go, simple flags", "CGO_ENABLED=0 go test -race -timeout=5m ./...", []string{"p.TestA"}, "p", "CGO_ENABLED=0 go test -json -count=1 -run '^(TestA)$' -race -timeout=5m 'p'"},
		{"go, flags with values stay", "go test -run Test -tags a ./...", []string{"p.TestA"}, "p", "go test -json -count=1 -run '^(TestA)$' -run Test -tags a ./..."},
		{"go, arguments of tests stay", "go test ./... -args -x", []string{"p.TestA"}, "p", "go test -json -count=1 -run '^(TestA)$' ./... -args -x"},
		{"go, no package", "go test ./...", []string{"p.TestA"}, "", ""},
		{"go, a hostile test", "go test ./...", []string{"p.Test$(touch x)"}, "p", ""},
		{"go, a hostile package", "go test ./...", []string{"-exec=evil.TestA"}, "-exec=evil", ""},
		{"go, a package with quotes", "go test ./...", []string{"p';x.TestA"}, "p';x", ""},
		{"go, it ends with the first failure", "go test -failfast ./...", []string{"p.TestA"}, "p", ""},
		{"cargo", "cargo test", []string{"src/lib.rs tests::a", "x src/lib.rs - f (line 3)"}, "", "cargo test --no-fail-fast -- --exact 'tests::a' 'src/lib.rs - f (line 3)'"},
		{"cargo, with arguments", "cargo test -- --nocapture", []string{"src/lib.rs a"}, "", "cargo test --no-fail-fast -- --nocapture --exact 'a'"},
		{"cargo, quotes", "cargo test", []string{"src/lib.rs a'; touch x; '"}, "", `cargo test --no-fail-fast -- --exact 'a'\''; touch x; '\'''`},
		{"cargo, an option", "cargo test", []string{"src/lib.rs --list"}, "", ""},
		{"cargo, a line", "cargo test", []string{"src/lib.rs a\nb"}, "", ""},
		{"node", "node --test test/", []string{"test/a.js > s > it's (1+1)", "test/a.js > s"}, "",
			`NODE_OPTIONS="--require=/g/guard.cjs" node --test --test-reporter=spec --test-reporter-destination=stdout --test-reporter=/g/reporter.mjs --test-reporter-destination=/g/report '--test-name-pattern=it'\''s \(1\+1\)' '--test-name-pattern=s' test/`},
		{"node, without a name", "node --test", []string{"test/a.js"}, "", ""},
		{"unittest", "python3 -m unittest", []string{"a.T.test_x"}, "", "python3 /g/runner.py unittest"},
		{"pytest", "pytest -q", []string{"a.py::test_x['; touch y']"}, "", "python3 /g/runner.py pytest --as-command -q"},
		{"a command that is not known", "sort", []string{"1"}, "", ""},
		{"a command that wraps runners", "make test", []string{"1"}, "", ""},
		{"nothing failed", "pytest", nil, "", ""},
	} {
		p := For(tt.command)
		r := reportOf(p.Runner)
		for _, name := range tt.failed {
			r.add(name, Failed)
		}
		if tt.broken != "" {
			r.add(tt.broken, Broken)
		}
		again, ok := p.Again(r, tt.failed)
		if ok != (tt.want != "") {
			t.Errorf("%s: it can run again: %v", tt.name, ok)
		} else if run := again.Arm([]byte{1}, "/g"); ok && run.Command != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, run.Command, tt.want)
		}
	}
}

func TestSince(t *testing.T) {
	base := []string{"a=passed", "old=failed", "bug=failed", "s=skipped"}
	for _, tt := range []struct {
		name        string
		runner      string
		before, now []string
		all         bool
		old, fixed  string
		added       int
		only        bool
	}{
		{name: "one is repaired", before: base, now: []string{"a=passed", "old=failed", "bug=passed"}, all: true, old: "old", fixed: "bug", only: true},
		{name: "nothing is old", before: base, now: []string{"a=passed", "old=passed", "bug=passed"}, all: true, fixed: "bug old"},
		{name: "a regression", before: base, now: []string{"a=failed", "old=failed", "bug=passed"}, all: true, old: "old", fixed: "bug", added: 1},
		{name: "a new test fails", before: base, now: []string{"a=passed", "old=failed", "bug=passed", "n=failed"}, all: true, old: "old", fixed: "bug", added: 1},
		{name: "a test is gone", before: base, now: []string{"old=failed", "bug=passed"}, all: true, old: "old", fixed: "bug"},
		{name: "a test may be gone", before: base, now: []string{"old=failed", "bug=passed"}, old: "old", fixed: "bug", only: true},
		{name: "an old one is gone", before: base, now: []string{"a=passed", "old=failed"}, all: true, old: "old"},
		{name: "an old one is skipped", before: base, now: []string{"a=passed", "old=failed", "bug=skipped"}, all: true, old: "old"},
		{name: "what was skipped fails", before: base, now: []string{"a=passed", "old=failed", "bug=passed", "s=failed"}, all: true, old: "old", fixed: "bug", added: 1},
		{name: "a broken file hides its tests", before: append(base, "f=broken"), now: []string{"a=passed", "old=failed", "bug=passed", "f=broken"}, all: true, old: "old", fixed: "bug"},
		{name: "a package that failed by its tests", runner: "go test", before: []string{"p.TestA=failed", "p.TestB=failed", "p=broken"}, now: []string{"p.TestA=failed", "p.TestB=passed", "p=broken"}, all: true, old: "p.TestA", fixed: "p.TestB", only: true},
		{name: "a package that fails without tests", runner: "go test", before: []string{"p.TestA=failed", "p=broken", "q=broken"}, now: []string{"p.TestA=failed", "p=broken", "q=broken"}, all: true, old: "p.TestA"},
		{name: "a package name in a test name", runner: "go test", before: []string{"p.TestA/q.TestB=failed", "p=broken", "p.TestA/q=broken"}, now: []string{"p.TestA/q.TestB=failed", "p=broken", "p.TestA/q=broken"}, all: true, old: "p.TestA/q.TestB"},
	} {
		c := reportOf(tt.runner, tt.now...).Since(reportOf(tt.runner, tt.before...), tt.all)
		if old, fixed := strings.Join(c.Old, " "), strings.Join(c.Fixed, " "); old != tt.old || fixed != tt.fixed || c.New != tt.added || c.OnlyOld != tt.only {
			t.Errorf("%s: %+v", tt.name, c)
		}
	}
	was, now := reportOf("", "old=failed", "bug=failed"), reportOf("", "old=failed", "bug=passed")
	for name, spoil := range map[string]func(r *Report){
		"cut": func(r *Report) { r.Ended = false }, "lost": func(r *Report) { r.Lost = []string{"x"} }, "broken": func(r *Report) { r.Broken = "x" },
	} {
		one, two := was, now
		spoil(&one)
		spoil(&two)
		if now.Since(one, true).OnlyOld || two.Since(was, true).OnlyOld || !now.Since(was, true).OnlyOld {
			t.Errorf("a report that is %s counts", name)
		}
	}
}

// runPlan runs a plan in a directory, with what it needs in another one, and gives what a person sees too.
func runPlan(t *testing.T, p Plan, dir, programs string) (Report, int, string) {
	t.Helper()
	armed := p.Arm([]byte("key"), programs)
	for _, f := range armed.Files {
		os.MkdirAll(filepath.Dir(f.Path), 0o755)
		mode := os.FileMode(0o600)
		if f.Executable {
			mode = 0o700
		}
		if err := os.WriteFile(f.Path, f.Content, mode); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("sh", "-c", armed.Command)
	cmd.Dir = dir
	out, err := cmd.Output()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatal(err)
	}
	text := string(armed.Stdout(out)) + string(armed.End())
	var content []byte
	if armed.Path != "" {
		content, _ = os.ReadFile(armed.Path)
	}
	return armed.Report(content), cmd.ProcessState.ExitCode(), text
}

// TestRunAgain runs the failed tests of real runners: a test fails the first time, and others that fail leave a mark if they run.
func TestRunAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		needs, command string
		files          map[string]string
		failed         string // the only test that runs again
	}{
		"unittest": {"python3", "python3 -m unittest discover -s tests", map[string]string{
			"tests/test_a.py": "import os, unittest\nclass T(unittest.TestCase):\n    def test_flaky(self):\n        was = os.path.exists('../mark')\n        open('../mark', 'w').close()\n        self.assertTrue(was)\n" +
				"    def test_other(self):\n        open('../other', 'a').write('x')\n"}, "test_a.T.test_flaky"},
		"node": {"node", "node --test test/", map[string]string{
			"test/a.test.js": "const { describe, it, test } = require('node:test');\nconst fs = require('fs');\ndescribe('suite (1)', () => {\n  it(\"it's $(flaky)\", () => { const was = fs.existsSync('../mark'); fs.writeFileSync('../mark', ''); if (!was) throw new Error('first'); });\n});\n" +
				"test('other', () => fs.appendFileSync('../other', 'x'));\n"}, "test/a.test.js > suite (1) > it's $(flaky)"},
		"go": {"go", "go test ./...", map[string]string{
			"go.mod": "module example.org/x\n\ngo 1.21\n", "p/a_test.go": "package p\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestFlaky(t *testing.T) {\n\tt.Run(\"a.b c\", func(t *testing.T) {\n\t\t_, err := os.Stat(\"../../mark\")\n\t\tos.WriteFile(\"../../mark\", nil, 0o600)\n\t\tif err != nil {\n\t\t\tt.Fatal(err)\n\t\t}\n\t})\n}\n\n" +
				"func TestOther(t *testing.T) {\n\tf, _ := os.OpenFile(\"../../other\", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)\n\tf.WriteString(\"x\")\n\tf.Close()\n}\n"}, "example.org/x/p.TestFlaky/a.b_c"},
		"cargo": {"cargo", "cargo test --offline", map[string]string{
			"Cargo.toml": "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2021\"\n", "src/lib.rs": "",
			"tests/a.rs": "#[test]\nfn flaky() {\n    let was = std::path::Path::new(\"../mark\").exists();\n    std::fs::write(\"../mark\", \"\").unwrap();\n    assert!(was);\n}\n",
			"tests/b.rs": "use std::io::Write;\n#[test]\nfn other() {\n    std::fs::OpenOptions::new().append(true).create(true).open(\"../other\").unwrap().write_all(b\"x\").unwrap();\n}\n"}, " flaky"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(tt.needs); err != nil {
				t.Skip(tt.needs + " is not installed")
			}
			top := t.TempDir()
			dir := filepath.Join(top, "repo")
			for file, content := range tt.files {
				os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755)
				if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			p := For(tt.command)
			run := func(p Plan) (Report, int) {
				r, code, _ := runPlan(t, p, dir, t.TempDir())
				return r, code
			}
			first, code := run(p)
			failed := first.Names(Failed)
			if code != p.Failing() || !first.Whole(Report{}) || !slices.Contains(failed, tt.failed) {
				t.Fatalf("exit %d: %+v", code, first)
			}
			again, ok := p.Again(first, failed)
			if !ok {
				t.Fatalf("it does not run again: %v", failed)
			}
			second, code := run(again)
			if code != 0 || !second.Whole(Report{}) || second.Tests[tt.failed] != Passed {
				t.Errorf("again, exit %d: %+v", code, second)
			}
			if other, _ := os.ReadFile(filepath.Join(top, "other")); string(other) != "x" {
				t.Errorf("the other test ran %d times", len(other))
			}
			first.Adjust(func(name string) bool { return slices.Contains(failed, name) || second.Tests[name] != Broken })
			if first.Count(Failed, Broken) != 0 || first.Tests[tt.failed] != Passed {
				t.Errorf("adjusted: %+v", first)
			}
		})
	}
}

// TestRenamedSubtests: a subtest of Go that is gone is missed, unless its test passes with as many subtests that pass as before.
func TestRenamedSubtests(t *testing.T) {
	report := func(runner string, tests map[string]Outcome) Report {
		return Report{Runner: runner, Began: true, Ended: true, Tests: tests}
	}
	before := map[string]Outcome{"p.TestA": Failed, "p.TestA/warning": Failed, "p.TestA/error": Passed, "p/q.TestB": Passed}
	for _, c := range []struct {
		name, runner string
		now          map[string]Outcome
		missing      int
	}{
		{"another name", goRunner, map[string]Outcome{"p.TestA": Passed, "p.TestA/warn": Passed, "p.TestA/error": Passed, "p/q.TestB": Passed}, 0},
		{"it is gone", goRunner, map[string]Outcome{"p.TestA": Passed, "p.TestA/error": Passed, "p/q.TestB": Passed}, 1},
		{"another one does not pass", goRunner, map[string]Outcome{"p.TestA": Passed, "p.TestA/warn": Skipped, "p.TestA/error": Passed, "p/q.TestB": Passed}, 1},
		{"it is skipped", goRunner, map[string]Outcome{"p.TestA": Passed, "p.TestA/warning": Skipped, "p.TestA/error": Passed, "p.TestA/x": Passed, "p/q.TestB": Passed}, 1},
		{"its test is gone", goRunner, map[string]Outcome{"p.TestC": Passed, "p.TestC/warn": Passed, "p.TestC/error": Passed, "p/q.TestB": Passed}, 3},
		{"a test is gone", goRunner, map[string]Outcome{"p.TestA": Passed, "p.TestA/warn": Passed, "p.TestA/error": Passed}, 1},
		{"another runner", "pytest", map[string]Outcome{"p.TestA": Passed, "p.TestA/warn": Passed, "p.TestA/error": Passed, "p/q.TestB": Passed}, 1},
	} {
		if got := report(c.runner, c.now).Against(report(c.runner, before)).Missing; len(got) != c.missing {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
