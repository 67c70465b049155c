package observe

import (
	"strings"
	"testing"

	"hortus.dev/api"
)

func TestLacking(t *testing.T) {
	for output, want := range map[string]Lack{
		"Traceback (most recent call last):\nModuleNotFoundError: No module named 'pandas.core'\n":               {Language: api.Python, Name: "pandas"},
		"==== ERRORS ====\nE   ModuleNotFoundError: No module named 'yaml'\n":                                    {Language: api.Python, Name: "yaml"},
		"ERROR: test_a\n    ImportError: No module named requests\n":                                             {Language: api.Python, Name: "requests"},
		"/usr/bin/python3: No module named pytest\n":                                                             {Language: api.Python, Name: "pytest"},
		"Error: Cannot find module 'express/lib'\nRequire stack:\n":                                              {Language: api.JavaScript, Name: "express"},
		"main.go:3:2: no required module provides package github.com/a/b; to add it:\n":                          {Language: api.Go, Name: "github.com/a/b"},
		"bash: line 1: cargo: command not found\n":                                                               {Name: "cargo"},
		"sh: 1: mvn: not found\n":                                                                                {Name: "mvn"},
		"make: cmake: No such file or directory\nmake: *** [Makefile:2: all] Error 127\n":                        {Name: "cmake"},
		"error: externally-managed-environment\n\nx This environment is externally managed\n":                    {Installer: "pip"},
		"ERROR: Could not find a version that satisfies the requirement foo (from versions: none)\n":             {Installer: "pip"},
		"npm error code EAI_AGAIN\nnpm error syscall getaddrinfo\n":                                              {Installer: "npm"},
		"go: example.com/x@v1: Get \"https://proxy\": dial tcp: lookup proxy: no such host\n":                    {Installer: "go"},
		"a/b.go:10:2: example.com/x@v0.7.0: Get \"https://proxy/x.zip\": dial tcp: lookup proxy: no such host\n": {Installer: "go"},
		"error: externally-managed-environment\nModuleNotFoundError: No module named 'pandas'\n":                 {Language: api.Python, Name: "pandas"},
		"Error: Cannot find module './local'\n":                                                                  {},
		"AssertionError: 1 != 2\n":                                                                               {},
		"ModuleNotFoundError: No module named '../../etc'\n":                                                     {},
		"main.go:3:2: no required module provides package github.com/" + strings.Repeat("a", 200) + "; to add\n": {},
		"": {},
	} {
		got, ok := Lacking(output)
		if got != want || ok != (want != Lack{}) {
			t.Errorf("%q lacks %+v (%v), want %+v", output, got, ok, want)
		}
	}
}
