package report_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/internal/task/gate/report"
)

// under runs a command in a folder, as a gate does, and gives the report of its tests.
func under(t *testing.T, command string, d report.Disguise, files map[string]string) report.Report {
	t.Helper()
	top, err := os.MkdirTemp("", "folder") // without the word test in its name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	top, at := filepath.Join(top, "app"), filepath.Join(top, "x")
	write := func(p, text string, mode os.FileMode) {
		os.MkdirAll(filepath.Dir(p), 0o755)
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for p, text := range files {
		write(filepath.Join(top, p), text, 0o644)
	}
	run := report.For(command).Disguised(d).Arm([]byte("0123456789abcdef"), at)
	for _, f := range run.Files {
		write(f.Path, string(f.Content), map[bool]os.FileMode{true: 0o755, false: 0o644}[f.Executable])
	}
	cmd := exec.Command("sh", "-c", run.Command)
	cmd.Dir = top
	out, _ := cmd.CombinedOutput()
	text := append(run.Stdout(out), run.End()...)
	content, _ := os.ReadFile(run.Path)
	r := run.Report(content)
	if !r.Began || !r.Ended || r.Broken != "" || len(r.Tampered) > 0 {
		t.Errorf("%s: %+v\n%s", run.Command, r, bytes.TrimSpace(text))
	}
	return r
}

// TestDisguise: each test asks in another way whether it is one. It passes if it cannot tell, and so fails without the disguise.
func TestDisguise(t *testing.T) {
	python := func(asks string) string {
		return "import os, sys, time, datetime\ndef tested():\n    return " + asks + "\n"
	}
	unit := "import unittest, app_%s\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertFalse(app_%[1]s.tested())\n"
	functions := "import app_%s\ndef test():\n    assert not app_%[1]s.tested()\n"
	asks := map[string]string{
		"argv": "len(sys.argv) > 1", "origin": "'test' in ' '.join(sys.orig_argv)", "cmdline": "b'test' in open('/proc/self/cmdline', 'rb').read()",
		"modules": "'unittest' in sys.modules or 'pytest' in sys.modules or sys.modules.get('_pytest') or any(m.startswith('unittest') for m in sys.modules)",
		"main":    "'runner' in sys.modules['__main__'].__file__ or 'test' in sys.modules['__main__'].__file__", "variables": "any(k.startswith('PYTEST') for k in os.environ)",
		"time": "time.time() < 4e9", "now": "datetime.datetime.now().year < 2099", "today": "datetime.date.today() < datetime.date(2099, 1, 1)", "local": "time.localtime().tm_year < 2099",
		"files": "__import__('os').path.exists('test_files.py')", "place": "os.path.exists('../mark')",
	}
	for name, command := range map[string]string{"unittest": "python3 -m unittest discover", "pytest": "PATH=/usr/bin:/bin python3 -m pytest -q -p no:cacheprovider"} {
		t.Run(name, func(t *testing.T) {
			if name == "pytest" && exec.Command("/usr/bin/python3", "-c", "import pytest").Run() != nil {
				t.Skip("the system's Python has no pytest")
			}
			if _, err := exec.LookPath("python3"); err != nil {
				t.Skip("python3 is not installed")
			}
			files := func(token string) map[string]string {
				out := map[string]string{"test_kinds.py": "import unittest, datetime, sys\nclass Own(datetime.datetime): pass\nclass K(unittest.TestCase):\n    def test_kinds(self):\n" +
					"        self.assertIn('unittest', sys.modules)\n        self.assertIsInstance(datetime.datetime.now() - datetime.timedelta(1), datetime.datetime)\n        self.assertNotIsInstance(datetime.datetime.now(), Own)\n" +
					"        self.assertIsInstance(datetime.datetime.now(datetime.timezone.utc).date(), datetime.date)\n"}
				for kind, ask := range asks {
					out["app_"+kind+".py"] = python(ask)
					text := unit
					if name == "pytest" {
						text = functions
					}
					text = strings.NewReplacer("%s", kind, "%[1]s", kind).Replace(text)
					if kind == "place" {
						text = strings.Replace(text, "import ", "import os, ", 1)
					}
					out["test_"+kind+token+".py"] = text
				}
				return out
			}
			plain := under(t, command, report.Disguise{}, files(""))
			all := under(t, command, report.Disguise{Parts: report.Everything, Token: "_q1w2e3"}, files("_q1w2e3"))
			if len(plain.Tests) != len(asks)+1 || len(all.Tests) != len(plain.Tests) {
				t.Errorf("%d and %d tests of %d", len(plain.Tests), len(all.Tests), len(asks)+1)
			}
			for test, how := range plain.Tests {
				honest := strings.Contains(test, "kinds") || strings.Contains(test, "place") || name == "unittest" && strings.Contains(test, "variables")
				if (how == report.Passed) != honest || all.Tests[test] != report.Passed {
					t.Errorf("%s: %s, in disguise %s", test, how, all.Tests[test])
				}
			}
		})
	}
	t.Run("node", func(t *testing.T) {
		if _, err := exec.LookPath("node"); err != nil {
			t.Skip("node is not installed")
		}
		const token = "_q1w2e3"
		asks := map[string]string{
			"context": "process.env.NODE_TEST_CONTEXT", "has": "'NODE_TEST_CONTEXT' in process.env", "keys": "Object.keys(process.env).some((k) => k.startsWith('NODE_TEST'))",
			"argv": "/test/.test(process.argv[1])", "date": "new Date().getFullYear() < 2099", "now": "Date.now() < 4e12", "text": "/ 20[0-9][0-9] /.test(Date())",
			"files": "require('fs').existsSync('files.test.js')",
		}
		files := func(token string) map[string]string {
			out := map[string]string{"kinds.test.mjs": "import test from 'node:test';\nimport assert from 'node:assert';\ntest('kinds', () => {\n  assert.ok(new Date() instanceof Date);\n" +
				"  assert.equal(new Date(5).constructor, Date);\n  assert.equal(new Date(2020, 1).getFullYear(), 2020);\n  assert.deepStrictEqual(new Date(7), new Date(7));\n  assert.equal(Date.parse('1970-01-01'), 0);\n});\n"}
			for kind, ask := range asks {
				out["app-"+kind+".js"] = "exports.tested = () => " + ask + ";\n"
				out[kind+token+".test.js"] = "require('node:test').test('t', () => require('node:assert').ok(!require('./app-" + kind + "').tested()));\n"
			}
			return out
		}
		plain := under(t, "node --test", report.Disguise{}, files(""))
		all := under(t, "node --test", report.Disguise{Parts: report.Everything, Token: token}, files(token))
		for test, how := range plain.Tests {
			if (how == report.Passed) != strings.Contains(test, "kinds") || all.Tests[test] != report.Passed {
				t.Errorf("%s: %s, in disguise %s", test, how, all.Tests[test])
			}
		}
		if len(plain.Tests) != len(asks)+1 {
			t.Errorf("%d tests", len(plain.Tests))
		}
	})
	t.Run("go", func(t *testing.T) {
		if _, err := exec.LookPath("go"); err != nil {
			t.Skip("go is not installed")
		}
		r := under(t, "go test ./...", report.Disguise{Parts: report.Everything, Token: "q1w2e3"}, map[string]string{"go.mod": "module example.org/a\n\ngo 1.20\n",
			"q1w2e3a_test.go": "package a\n\nimport (\n\t\"os\"\n\t\"strings\"\n\t\"testing\"\n)\n\nfunc TestA(t *testing.T) {\n\tif strings.HasSuffix(os.Args[0], \".test\") {\n\t\tt.Error(os.Args[0])\n\t}\n" +
				"\tif _, err := os.Stat(\"a_test.go\"); err == nil {\n\t\tt.Error(\"there\")\n\t}\n}\n"})
		if r.Tests["example.org/a.TestA"] != report.Passed {
			t.Errorf("%+v", r)
		}
	})
}
