package observe

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/patience"
)

// What real interpreters say is missing.
func TestMissingOfRealFailures(t *testing.T) {
	for _, c := range []struct {
		lang                  api.Language
		prog, file, src, want string
	}{
		{api.Python, "python3", "main.py", "import no_such_module", "no_such_module"},
		{api.Python, "python3", "main.py", "import no_such_module.part.of as x", "no_such_module"},
		{api.Python, "python3", "main.py", "from math import nothing", ""},
		{api.Python, "python3", "main.py", "import json.nothing", "json"},
		{api.Python, "python3", "main.py", "try:\n    import no_such_one\nexcept ImportError:\n    import no_such_other", "no_such_other"},
		{api.JavaScript, "node", "main.js", "require('no-such-module')", "no-such-module"},
		{api.JavaScript, "node", "main.js", "require('no-such-module/part')", "no-such-module"},
		{api.JavaScript, "node", "main.js", "require('@no-such/module/part')", "@no-such/module"},
		{api.JavaScript, "node", "main.mjs", "import x from 'no-such-module'", "no-such-module"},
		{api.JavaScript, "node", "main.js", "require('./no-such-file')", ""},
		{api.JavaScript, "node", "main.js", "require('/no/such/file')", ""},
		{api.Python, "bash", "main.sh", "no_such_command --help", "no_such_command"},
		{api.Python, "sh", "main.sh", "no-such-command2", "no-such-command2"},
	} {
		t.Run(c.src, func(t *testing.T) {
			if _, err := exec.LookPath(c.prog); err != nil {
				t.Skipf("no %s on this machine", c.prog)
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.src+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience.Of(time.Minute))
			defer cancel()
			cmd := exec.CommandContext(ctx, c.prog, c.file)
			cmd.Dir = dir
			var errs bytes.Buffer
			cmd.Stderr = &errs
			var exit *exec.ExitError
			if err := cmd.Run(); !errors.As(err, &exit) {
				t.Fatalf("it did not fail: %v", err)
			}
			category := Categorize(api.PhaseRun, api.Exit{Code: exit.ExitCode()}, errs.String())
			if got := Missing(c.lang, category, errs.String()); got != c.want {
				t.Errorf("missing %q, want %q (%s):\n%s", got, c.want, category, errs.String())
			}
		})
	}
}

// A program prints what it likes; only a name is taken from it.
func TestMissingTakesNamesOnly(t *testing.T) {
	for _, stderr := range []string{
		"ModuleNotFoundError: No module named ''", "ModuleNotFoundError: No module named '../../etc'",
		"ModuleNotFoundError: No module named '" + strings.Repeat("a", 200) + "'", "", "ModuleNotFoundError",
	} {
		if got := Missing(api.Python, api.CategoryImport, stderr); got != "" {
			t.Errorf("%.60q gives %q", stderr, got)
		}
	}
	for _, path := range []string{"@only", "a\x1b[31m", "node:nothing", "$(reboot)", "file:///x", "@a/"} {
		if got := Missing(api.JavaScript, api.CategoryImport, "Error: Cannot find module '"+path+"'"); got != "" {
			t.Errorf("%q gives %q", path, got)
		}
	}
	if got := Missing(api.Python, api.CategoryName, "ModuleNotFoundError: No module named 'x'"); got != "" {
		t.Errorf("another category names %q", got)
	}
}
