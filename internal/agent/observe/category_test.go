package observe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/test/patience"
)

// real programs that fail, run by the interpreters of this machine.
var failing = []struct {
	file, src string
	want      api.Category
}{
	{"main.py", "import no_such_module", api.CategoryImport},
	{"main.py", "from math import nothing", api.CategoryImport},
	{"main.py", "print('a'", api.CategorySyntax},
	{"main.py", "if True:\nprint(1)", api.CategorySyntax},
	{"main.py", "if True:\n    x = 1\n\ty = 2", api.CategorySyntax},
	{"main.py", "print 'a'", api.CategorySyntax},
	{"main.py", "print(nothing)", api.CategoryName},
	{"main.py", "x = 1\ndef f():\n    x += 1\nf()", api.CategoryName},
	{"main.py", "'a' + 1", api.CategoryType},
	{"main.py", "[].push(1)", api.CategoryType},
	{"main.py", "int('x')", api.CategoryValue},
	{"main.py", "{}['a']", api.CategoryValue},
	{"main.py", "[][1]", api.CategoryValue},
	{"main.py", "1/0", api.CategoryValue},
	{"main.py", "def f(): f()\nf()", api.CategoryValue},
	{"main.py", "import json; json.loads('x')", api.CategoryValue},
	{"main.py", "import statistics; statistics.mean([])", api.CategoryValue},
	{"main.py", "input()", api.CategoryValue},
	{"main.py", "assert False", api.CategoryValue},
	{"main.py", "open('nowhere')", api.CategoryMissingFile},
	{"main.py", "open('.')", api.CategoryMissingFile},
	{"main.py", "raise PermissionError(13, 'Permission denied', 'x')", api.CategoryPermission},
	{"main.py", "raise MemoryError()", api.CategoryMemory},
	{"main.py", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:1/')", api.CategoryNetwork},
	{"main.py", "raise OSError(28, 'No space left on device')", api.CategoryDisk},
	{"main.py", "raise Exception('odd')", api.CategoryUnknown},
	{"main.py", "try:\n    1/0\nexcept ZeroDivisionError:\n    int('x')", api.CategoryValue},
	{"main.js", "require('no-such-module')", api.CategoryImport},
	{"main.mjs", "import x from 'no-such-module'", api.CategoryImport},
	{"main.mjs", "import { nothing } from 'fs'", api.CategoryImport},
	{"main.js", "console.log('a'", api.CategorySyntax},
	{"main.js", "function f() {", api.CategorySyntax},
	{"main.js", "const os = require('os'); const fs = 1; import fs from 'fs'", api.CategorySyntax},
	{"main.js", "let x = 1; let x = 2;", api.CategorySyntax},
	{"main.js", "console.log(nothing)", api.CategoryName},
	{"main.mjs", "require('fs')", api.CategoryName},
	{"main.js", "null.x", api.CategoryType},
	{"main.js", "const a = 1; a = 2", api.CategoryType},
	{"main.js", "console.lgo()", api.CategoryType},
	{"main.js", "new Array(-1)", api.CategoryValue},
	{"main.js", "JSON.parse('x')", api.CategoryValue},
	{"main.js", "(function f() { f() })()", api.CategoryValue},
	{"main.js", "require('fs').readFileSync('nowhere')", api.CategoryMissingFile},
	{"main.js", "require('net').connect(1, '127.0.0.1')", api.CategoryNetwork},
	{"main.js", "throw new Error('odd')", api.CategoryUnknown},
	{"main.sh", "no_such_command", api.CategoryCommand},
	{"main.sh", "cat nowhere; exit 1", api.CategoryMissingFile},
	{"main.sh", "if then", api.CategorySyntax},
	{"main.sh", "python3 nowhere.py", api.CategoryMissingFile},
	{"main.sh", "node nowhere.js", api.CategoryMissingFile},
	{"main.sh", "echo x > noexec; ./noexec", api.CategoryPermission},
	{"main.sh", "exit 7", api.CategoryUnknown},
}

func TestCategoriesOfRealFailures(t *testing.T) {
	run := map[string]string{".py": "python3", ".js": "node", ".mjs": "node", ".sh": "bash"}
	for _, c := range failing {
		t.Run(c.src, func(t *testing.T) {
			t.Parallel()
			prog := run[filepath.Ext(c.file)]
			if _, err := exec.LookPath(prog); err != nil {
				t.Skipf("no %s on this machine", prog)
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.src+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience.Of(60*time.Second))
			defer cancel()
			cmd := exec.CommandContext(ctx, "bash", "-c", prog+" "+c.file)
			cmd.Dir = dir
			var errs bytes.Buffer
			cmd.Stderr = &errs
			var exit *exec.ExitError
			if err := cmd.Run(); !errors.As(err, &exit) {
				t.Fatalf("it did not fail: %v", err)
			}
			if got := Categorize(api.PhaseRun, api.Exit{Code: exit.ExitCode()}, errs.String()); got != c.want {
				t.Errorf("category %q, want %q for exit %d:\n%s", got, c.want, exit.ExitCode(), errs.String())
			}
		})
	}
}

func TestCategoriesOfCauses(t *testing.T) {
	for _, c := range []struct {
		phase  api.Phase
		exit   api.Exit
		stderr string
		want   api.Category
	}{
		{api.PhaseRun, api.Exit{Code: 137, Cause: api.CauseTimeout}, "", api.CategoryTimeout},
		{api.PhaseRun, api.Exit{Code: 137, Cause: api.CauseCPUTime}, "", api.CategoryTimeout},
		{api.PhaseRun, api.Exit{Code: 137, Cause: api.CauseMemory}, "Killed", api.CategoryMemory},
		{api.PhaseRun, api.Exit{Code: 137, Cause: api.CauseOutput}, "", api.CategoryOutputLimit},
		{api.PhaseRun, api.Exit{Code: -1, Cause: api.CauseLost}, "", api.CategoryUnknown},
		{api.PhaseRun, api.Exit{Code: 137}, "", api.CategoryMemory},
		{api.PhaseRun, api.Exit{Code: 134}, "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory", api.CategoryMemory},
		{api.PhaseRun, api.Exit{Code: 127}, "bash: line 1: python3: command not found\n", api.CategoryCommand},
		{api.PhaseRun, api.Exit{Code: 127}, "sh: 1: python3: not found\n", api.CategoryCommand},
		{api.PhaseInstall, api.Exit{Code: 1}, "ERROR: No matching distribution found for x", api.CategoryInstall},
		{api.PhaseInstall, api.Exit{Code: 1}, "Failed to establish a new connection: [Errno -3] Temporary failure in name resolution", api.CategoryNetwork},
		{api.PhaseInstall, api.Exit{Code: 127}, "bash: line 1: pip: command not found\n", api.CategoryCommand},
		{api.PhaseInstall, api.Exit{Code: 1, Cause: api.CauseTimeout}, "", api.CategoryTimeout},
	} {
		if got := Categorize(c.phase, c.exit, c.stderr); got != c.want {
			t.Errorf("%s %+v %q: %q, want %q", c.phase, c.exit, c.stderr, got, c.want)
		}
	}
}

func TestCaptureKeepsHeadAndTail(t *testing.T) {
	for _, n := range []int{0, 1, HeadBytes, HeadBytes + 1, HeadBytes + TailBytes, HeadBytes + TailBytes + 1, 100_000} {
		for _, piece := range []int{1, 7, 4096, 100_000} {
			var whole strings.Builder
			for i := 0; whole.Len() < n; i++ {
				fmt.Fprintf(&whole, "%d,", i)
			}
			in := whole.String()[:n]
			var kept bytes.Buffer
			c := &Capture{Whole: &kept, Buffer: true}
			for rest := in; rest != ""; {
				k := min(piece, len(rest))
				if _, err := c.Write([]byte(rest[:k])); err != nil {
					t.Fatal(err)
				}
				rest = rest[k:]
			}
			got := c.Text()
			if n <= HeadBytes+TailBytes && got != in {
				t.Fatalf("%d bytes in pieces of %d came back as %d", n, piece, len(got))
			}
			if n > HeadBytes+TailBytes {
				left := fmt.Sprintf("[... %d bytes omitted ...]", n-HeadBytes-TailBytes)
				if !strings.HasPrefix(got, in[:HeadBytes]) || !strings.HasSuffix(got, in[n-TailBytes:]) || !strings.Contains(got, left) {
					t.Fatalf("%d bytes in pieces of %d: wrong cut", n, piece)
				}
			}
			if b, all := c.Bytes(); !all || string(b) != in || kept.String() != in || c.Total() != int64(n) {
				t.Fatalf("%d bytes: the whole is not kept", n)
			}
		}
	}
}

func TestCaptureBoundsTheWhole(t *testing.T) {
	var kept bytes.Buffer
	c := &Capture{Whole: &kept, Buffer: true}
	for range 40 {
		if _, err := c.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if n := bytes.Count(kept.Bytes(), []byte("[hortus: output beyond")); n != 1 || kept.Len() > WholeBytes+200 {
		t.Errorf("kept %d bytes with %d marks", kept.Len(), n)
	}
	if _, all := c.Bytes(); all || c.Total() != 40<<20 {
		t.Errorf("total %d, all %v", c.Total(), all)
	}
}

func FuzzCategorize(f *testing.F) {
	f.Add(1, "Traceback (most recent call last):\n  File \"a.py\", line 1\nNameError: name 'x' is not defined\n")
	f.Add(127, "bash: x: command not found\n")
	f.Add(1, "/a.js:1\nReferenceError: x is not defined\n")
	f.Fuzz(func(t *testing.T, code int, stderr string) {
		for _, p := range []api.Phase{api.PhaseRun, api.PhaseInstall} {
			if Categorize(p, api.Exit{Code: code}, stderr) == "" {
				t.Error("a failure without a category")
			}
		}
		for _, category := range []api.Category{api.CategoryImport, api.CategoryCommand} {
			for _, lang := range []api.Language{api.Python, api.JavaScript} {
				if name := Missing(lang, category, stderr); len(name) > maxName || name != "" && !plainName.MatchString(name) {
					t.Errorf("missing %q", name)
				}
			}
		}
		c := &Capture{}
		if _, err := c.Write([]byte(stderr)); err != nil {
			t.Fatal(err)
		}
		if !utf8.ValidString(c.Text()) {
			t.Error("the observation is no text")
		}
	})
}
