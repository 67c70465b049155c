package report

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// outcomes lists the tests of a report, as "name=failed".
func outcomes(r Report) string {
	var out []string
	for name, o := range r.Tests {
		out = append(out, name+"="+string(o))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func TestJUnit(t *testing.T) {
	for name, tt := range map[string]struct{ runner, module, content, want, broken string }{
		"pytest": {"pytest", "", `<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest" errors="1" failures="1">` +
			`<testcase classname="tests.test_a.TestC" name="test_p[a\n&lt;]" time="0.1" /><testcase classname="tests.test_a" name="test_bad"><failure message="no">assert&#x1b; 0</failure></testcase>` +
			`<testcase classname="tests.test_a" name="test_x"><skipped type="pytest.xfail" message="" /></testcase><testcase classname="tests.test_a" name="test_s"><skipped type="pytest.skip" message="" /></testcase>` +
			`<testcase classname="" name="tests.test_b"><error message="collection failure">E</error></testcase><testcase classname="tests.test_a" name="test_e"><error message="failed on setup with &quot;x&quot;">E</error></testcase></testsuite></testsuites>`,
			"tests.test_a > test_bad=failed\ntests.test_a > test_e=failed\ntests.test_a > test_s=skipped\ntests.test_a > test_x=expected\ntests.test_a.TestC > test_p[a\\n<]=passed\ntests.test_b=broken", ""},
		"Surefire": {"Maven", "core", `<?xml version="1.0" encoding="UTF-8"?>
<testsuite xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" name="org.x.ATest" tests="3" errors="1" skipped="1" failures="0">
  <properties><property name="java.version" value="17"/></properties>
  <testcase name="adds" classname="org.x.ATest" time="0.01"><system-out><![CDATA[<testcase name="forged"/>]]></system-out></testcase>
  <testcase name="throws" classname="org.x.ATest"><error message="x" type="java.lang.RuntimeException">stack</error></testcase>
  <testcase name="flaky" classname="org.x.ATest"><flakyFailure message="x"><failure/></flakyFailure></testcase>
  <testcase name="off" classname="org.x.ATest"><skipped message="later"/></testcase>
</testsuite>`, "core > org.x.ATest > adds=passed\ncore > org.x.ATest > flaky=passed\ncore > org.x.ATest > off=skipped\ncore > org.x.ATest > throws=error", ""},
		"Gradle": {"Gradle", "", `<testsuite name="x.BTest" tests="2" skipped="0" failures="1" timestamp="2024-01-01T00:00:00"><properties/><testcase name="one()" classname="x.BTest" time="0.0"/>` +
			`<testcase name="two()" classname="x.BTest"><failure message="m" type="t">s</failure></testcase><system-out><![CDATA[]]></system-out></testsuite>`, "x.BTest > one()=passed\nx.BTest > two()=failed", ""},
		"the same name twice":  {"pytest", "", `<testsuite><testcase name="a"><failure/></testcase><testcase name="a"/></testsuite>`, "a=failed", ""},
		"a test in a test":     {"pytest", "", `<testsuite><testcase name="a"><testcase name="b"/><failure/></testcase></testsuite>`, "a=failed", ""},
		"no tests":             {"pytest", "", `<testsuites/>`, "", ""},
		"a byte that is wrong": {"pytest", "", "<testsuite><testcase name=\"a\x00\xff\"/></testsuite>", "a??=passed", ""},
		"empty":                {"pytest", "", "", "", "not whole"},
		"cut":                  {"pytest", "", `<testsuite><testcase name="a"/><testcase name="b">`, "a=passed", "not whole"},
		"an entity":            {"pytest", "", `<!DOCTYPE x [<!ENTITY e "boom">]><testsuite><testcase name="&e;"/></testsuite>`, "", "not whole"},
		"another document":     {"pytest", "", `<html></html>`, "", "not whole"},
		"deep":                 {"pytest", "", `<testsuite>` + strings.Repeat("<a>", maxDepth), "", "levels"},
	} {
		r := readJUnit(tt.runner, tt.module, []byte(tt.content))
		want := strings.ReplaceAll(tt.want, "=error", "=failed")
		if got := outcomes(r); got != want || !strings.Contains(r.Broken, tt.broken) || (tt.broken == "") != (r.Broken == "") || r.Ended != (tt.broken == "") {
			t.Errorf("%s: broken %q, ended %v, tests\n%s\nwant\n%s", name, r.Broken, r.Ended, got, want)
		}
	}
}

// parts puts files into one, as the command does.
func parts(files ...string) []byte {
	var b strings.Builder
	for i := 0; i < len(files); i += 2 {
		fmt.Fprintf(&b, "file %d %s\n%s", len(files[i+1]), files[i], files[i+1])
	}
	return []byte(b.String())
}

func TestParts(t *testing.T) {
	honest := seal("k", `{"begin": "mocha"}`, `{"test": "a.js > a", "how": "passed"}`, `{"end": 0}`)
	xml := `<testsuite><testcase classname="c" name="t"/></testsuite>`
	for name, tt := range map[string]struct {
		content      []byte
		out          string
		runner, want string
		broken       string
	}{
		"one": {content: parts("/g/out/mocha-1.report", honest), runner: "mocha", want: "a.js > a=passed"},
		"all": {content: parts("/g/out/mocha-1.report", honest, "/g/out/pytest.xml", xml, "./target/surefire-reports/TEST-c.xml", xml, "./m n/target/surefire-reports/TEST-c.xml", xml, "./build/test-results/test/TEST-c.xml", xml),
			runner: "Gradle, Maven, mocha, pytest", want: "a.js > a=passed\nc > t=passed\nm n > c > t=passed"},
		"with lines":            {content: parts("/g/out/jest-1.report", honest), out: "1..1\nok 1 - t\n", runner: "TAP, jest", want: "a.js > a=passed\nt=passed"},
		"with lines by chance":  {content: parts("/g/out/jest-1.report", honest), out: "1..2\nok 1 - t\n", runner: "jest", want: "a.js > a=passed"},
		"nothing":               {runner: "TAP"},
		"a runner ended early":  {content: parts("/g/out/mocha-1.report", strings.Join(strings.SplitAfter(honest, "\n")[:2], "")), runner: "mocha", want: "a.js > a=passed", broken: "ended early"},
		"another key":           {content: parts("/g/out/mocha-1.report", strings.ReplaceAll(honest, "passed", "skipped")), runner: "mocha", broken: "checksum"},
		"a size that is wrong":  {content: []byte("file 99 /g/out/pytest.xml\n" + xml), runner: "the gate", broken: "distinguished"},
		"a size below zero":     {content: []byte("file -1 /g/out/pytest.xml\n" + xml), runner: "the gate", broken: "distinguished"},
		"no part":               {content: []byte("hello"), runner: "the gate", broken: "distinguished"},
		"an unknown file":       {content: parts("/g/out/other.xml", xml), runner: "the gate", broken: "unknown name"},
		"a file that is no XML": {content: parts("/g/out/pytest.xml", "x"), runner: "pytest", broken: "not whole"},
		"a failure": {content: parts("/g/out/mocha-1.report", seal("k", `{"begin": "mocha"}`, `{"test": "a.js > a", "how": "failed"}`, `{"end": 0}`)),
			runner: "mocha", want: "a.js > a=failed", broken: "tests failed"},
	} {
		run := For("make test").Arm([]byte("k"), "/g")
		run.Stdout([]byte(tt.out))
		run.End()
		r := run.Report(tt.content)
		if got := outcomes(r); got != tt.want || r.Runner != tt.runner {
			t.Errorf("%s: %q with\n%s\nwant %q with\n%s", name, r.Runner, got, tt.runner, tt.want)
		}
		if f := r.Against(Report{}); tt.want != "" && tt.broken == "" && f.Why != "" || !strings.Contains(f.Why, tt.broken) {
			t.Errorf("%s: %q, want %q in it", name, f.Why, tt.broken)
		}
	}
}

// TestWrapped runs real runners that a Makefile starts.
func TestWrapped(t *testing.T) {
	for name, tt := range map[string]struct {
		needs        string
		files        map[string]string
		recipe, want string
		shown        string
	}{
		"go": {"go", map[string]string{"go.mod": "module example.org/x\n\ngo 1.21\n", "a_test.go": "package x\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {}\n\nfunc TestB(t *testing.T) { t.Fatal(\"no luck\") }\n"},
			"go test ./...", "example.org/x.TestA=passed\nexample.org/x.TestB=failed\nexample.org/x=broken", "no luck"},
		"go, its output read by another program": {"go", map[string]string{"go.mod": "module example.org/x\n\ngo 1.21\n", "a_test.go": "package x\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {}\n"},
			"go test ./... | grep -v Action", "", "ok"},
		"node": {"node", map[string]string{"test/a.test.js": "const { test } = require('node:test');\ntest('one', () => {});\ntest('two', () => { throw new Error('no luck'); });\n"},
			"node --test test/", "test/a.test.js > one=passed\ntest/a.test.js > two=failed", "no luck"},
		"unittest": {"python3", map[string]string{"test_a.py": "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n    def test_b(self): self.fail()\n"},
			"python3 -m unittest", "test_a.T.test_a=passed\ntest_a.T.test_b=failed", ""},
		"a shim that looks for the program in PATH": {"python3", map[string]string{"s/python3": "#!/bin/sh\nd=${0%/*}\nreal=$(PATH=$(echo \"$PATH\" | sed \"s#$d:##\"); command -v python3)\nexec \"$real\" \"$@\"\n"},
			`chmod +x s/python3; PATH="$${PATH%%:*}:$$PWD/s:$${PATH#*:}" timeout 30 python3 -c 'print("rea" + "ched"); raise SystemExit(1)'`, "", "reached"},
		// Stands for a program that writes JUnit files, and for one that pretends that an old file is of this run.
		"Maven": {"sh", map[string]string{"m/pom.xml": "<project/>", "m/target/surefire-reports/TEST-old.xml": `<testsuite><testcase name="old"/></testsuite>`, "write": `<testsuite><testcase name="new"/></testsuite>`},
			"mkdir -p m/target/surefire-reports && cp write m/target/surefire-reports/TEST-new.xml && false", "m > new=passed", ""},
		"a test that removes and forges what reports": {"sh", map[string]string{},
			`d="$${PATH%%/bin:*}"; rm -rf "$$d/bin" "$$d/hook.cjs"; echo 'exit 0' >"$$d/report"; echo '<testsuite/>' >"$$d/out/pytest.xml"; false`, "", "false"},
		"pytest": {"sh", map[string]string{"write": `<testsuite><testcase classname="test_a" name="test_x"/></testsuite>`}, // what it reads of its environment
			`echo $$PYTEST_ADDOPTS && cp write "$${PYTEST_ADDOPTS#--junitxml=}" && false`, "test_a > test_x=passed", "junitxml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, program := range []string{tt.needs, "make"} {
				if _, err := exec.LookPath(program); err != nil {
					t.Skip(program + " is not installed")
				}
			}
			dir := t.TempDir()
			tt.files["Makefile"] = "check:\n\t" + tt.recipe + "\n"
			for file, content := range tt.files {
				os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755)
				if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			r, code, shown := runPlan(t, For("make check"), dir, t.TempDir())
			if !r.Began {
				r.Tests = nil
			}
			got := strings.Split(outcomes(r), "\n")
			want := strings.Split(tt.want, "\n")
			slices.Sort(want)
			if !slices.Equal(got, want) || !strings.Contains(shown, tt.shown) || strings.HasSuffix(tt.recipe, "-v Action") != (code == 0) || (r.Began && r.Ended) != (tt.want != "") {
				t.Errorf("exit %d, ended %v, tests\n%s\nwant\n%s\nshown\n%s", code, r.Ended, got, want, shown)
			}
		})
	}
}

func FuzzJUnit(f *testing.F) {
	f.Add([]byte(`<testsuites><testsuite><testcase classname="c" name="n"><failure/></testcase></testsuite></testsuites>`))
	f.Fuzz(func(t *testing.T, p []byte) {
		if r := readJUnit("pytest", "m", p); r.Ended == (r.Broken != "") {
			t.Errorf("%+v", r)
		}
	})
}

func FuzzParts(f *testing.F) {
	f.Add(parts("/g/out/mocha-1.report", seal("k", `{"begin": "mocha"}`, `{"end": 0}`), "./target/surefire-reports/TEST-c.xml", "<testsuite/>"))
	f.Fuzz(func(t *testing.T, p []byte) { merge(readParts([]byte("k"), p)).Against(Report{}) })
}
