package observe

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/patience"
)

func TestLacking(t *testing.T) {
	for output, want := range map[string]Lack{
		"Traceback (most recent call last):\nModuleNotFoundError: No module named 'pandas.core'\n":                                                      {Language: api.Python, Name: "pandas"},
		"==== ERRORS ====\nE   ModuleNotFoundError: No module named 'yaml'\n":                                                                           {Language: api.Python, Name: "yaml"},
		"ERROR: test_a\n    ImportError: No module named requests\n":                                                                                    {Language: api.Python, Name: "requests"},
		"/usr/bin/python3: No module named pytest\n":                                                                                                    {Language: api.Python, Name: "pytest"},
		"Error: Cannot find module 'express/lib'\nRequire stack:\n":                                                                                     {Language: api.JavaScript, Name: "express"},
		"main.go:3:2: no required module provides package github.com/a/b; to add it:\n":                                                                 {Language: api.Go, Name: "github.com/a/b"},
		"bash: line 1: cargo: command not found\n":                                                                                                      {Name: "cargo"},
		"sh: 1: mvn: not found\n":                                                                                                                       {Name: "mvn"},
		"make: cmake: No such file or directory\nmake: *** [Makefile:2: all] Error 127\n":                                                               {Name: "cmake"},
		"error: externally-managed-environment\n\nx This environment is externally managed\n":                                                           {Installer: "pip"},
		"ERROR: Could not find a version that satisfies the requirement foo (from versions: none)\n":                                                    {Installer: "pip"},
		"npm error code EAI_AGAIN\nnpm error syscall getaddrinfo\n":                                                                                     {Installer: "npm"},
		"go: example.com/x@v1: Get \"https://proxy\": dial tcp: lookup proxy: no such host\n":                                                           {Installer: "go"},
		"a/b.go:10:2: example.com/x@v0.7.0: Get \"https://proxy/x.zip\": dial tcp: lookup proxy: no such host\n":                                        {Installer: "go"},
		"[ERROR] Cannot access central (https://repo.example.org) in offline mode and the artifact a:b:jar:1 has not been downloaded from it before.\n": {Installer: "mvn"},
		"error: externally-managed-environment\nModuleNotFoundError: No module named 'pandas'\n":                                                        {Language: api.Python, Name: "pandas"},
		"Error: Cannot find module './local'\n":                                                                                                         {},
		"AssertionError: 1 != 2\n":                                                                                                                      {},
		"ModuleNotFoundError: No module named '../../etc'\n":                                                                                            {},
		"main.go:3:2: no required module provides package github.com/" + strings.Repeat("a", 200) + "; to add\n":                                        {},
		"": {},
	} {
		got, ok := Lacking(output)
		if got != want || ok != (want != Lack{}) {
			t.Errorf("%q lacks %+v (%v), want %+v", output, got, ok, want)
		}
	}
}

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

func TestUninstalled(t *testing.T) {
	for _, c := range []struct {
		lang   api.Language
		output string
		want   Uninstall
		says   string
	}{
		{api.JavaScript, "npm error code E404\nnpm error 404 Not Found - GET https://registry.example.org/left-padx - Not found\nnpm error 404\nnpm error 404  'left-padx@*' is not in this registry.\n",
			Uninstall{true, "npm", "left-padx", true, false}, "has no package left-padx"},
		{api.JavaScript, "npm error code E404\nnpm error 404 Not Found - GET https://registry.example.org/@a%2fb - Not found\nnpm error 404  The requested resource '@a/b@*' could not be found or you do not have permission\n",
			Uninstall{true, "npm", "@a/b", true, false}, "has no package @a/b"},
		{api.JavaScript, "npm error code ETARGET\nnpm error notarget No matching version found for wonder@^9.\n", Uninstall{true, "npm", "wonder", true, false}, "no version"},
		{api.JavaScript, "npm error code ENOTFOUND\nnpm error network request to https://registry.example.org/wonder failed, reason: getaddrinfo ENOTFOUND\n", Uninstall{true, "npm", "wonder", false, true}, "cannot reach"},
		{api.Python, "ERROR: Could not find a version that satisfies the requirement wonder (from versions: none)\nERROR: No matching distribution found for wonder\n", Uninstall{true, "pip", "wonder", true, false}, "no package wonder, or no version of it that fits: the registry does not have it, or could not be reached"},
		{api.Python, "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(...)': /simple/wonder/\nERROR: No matching distribution found for wonder==1.0\n", Uninstall{true, "pip", "wonder", false, true}, "cannot reach"},
		{api.Python, "/usr/bin/python3: No module named pip\n", Uninstall{true, "pip", "", false, false}, "python3-pip"},
		{api.Go, "go: main imports\n\texample.org/nope: module example.org/nope: reading http://proxy.example.org/example.org/nope/@v/list: 404 Not Found\n", Uninstall{true, "go", "example.org/nope", true, false}, "example.org/nope"},
		{api.Go, "go: example.org/a/b: module example.org/a/b: Get \"https://proxy.example.org/x\": dial tcp: lookup proxy.example.org: no such host\n", Uninstall{true, "go", "example.org/a/b", false, true}, "cannot reach"},
		{api.Python, "make: *** [x] Error 1", Uninstall{}, ""},
		{api.JavaScript, "npm error code E404\nnpm error 404  '$(rm -rf ~)@*' is not in this registry.\n", Uninstall{true, "npm", "", true, false}, "that was requested"},
	} {
		got := Uninstalled(c.lang, c.output)
		if got != c.want || !strings.Contains(got.Sentence(""), c.says) {
			t.Errorf("%q:\n%+v, want %+v; %s", c.output, got, c.want, got.Sentence(""))
		}
	}
	u := Uninstall{Failed: true, Installer: "pip", Package: "wonder", Offline: true}
	if s := u.Sentence("it is closed"); !strings.HasSuffix(s, "wonder could not be installed: it is closed") {
		t.Error(s)
	}
}

func FuzzUninstalled(f *testing.F) {
	f.Add("npm error 404  'a@*' is not in this registry.")
	f.Add("ERROR: No matching distribution found for x")
	f.Fuzz(func(t *testing.T, output string) {
		for _, l := range []api.Language{api.Python, api.JavaScript, api.Go} {
			if u := Uninstalled(l, output); len(u.Package) > maxName || strings.ContainsAny(u.Package, " \n'\"$`") {
				t.Errorf("package %q", u.Package)
			}
		}
	})
}

func TestNotFound(t *testing.T) {
	for output, want := range map[string]string{
		"Error: ENOENT: no such file or directory, open '/workspace/.env'\n":                 "/workspace/.env",
		"FileNotFoundError: [Errno 2] No such file or directory: './config/../.env.local'\n": ".env.local",
		"sh: 1: .: cannot open ./.env: No such file\n":                                       ".env",
		"all good: .env\n": "",
	} {
		got := NotFound(output)
		if want == "" && len(got) > 0 || want != "" && !slices.Contains(got, want) {
			t.Errorf("%q: %q", output, got)
		}
	}
}
