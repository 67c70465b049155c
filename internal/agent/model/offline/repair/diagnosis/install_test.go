package diagnosis

import (
	"testing"

	"hortus.dev/api"
)

// TestInstalls: what is missing is installed once, by the name of its package; what may be
// misspelt or is the program's own is not.
func TestInstalls(t *testing.T) {
	py := func(name string) string {
		return "Traceback (most recent call last):\n  File \"/workspace/main.py\", line 1, in <module>\n    import x\nModuleNotFoundError: No module named '" + name + "'\n"
	}
	js := func(name string) string {
		return "Error: Cannot find module '" + name + "'\nRequire stack:\n- /workspace/main.js\n"
	}
	const goOld = "main.go:5:2: cannot find package \"example.org/x/y\" in any of:\n\t/usr/local/go/src/example.org/x/y (from $GOROOT)\n"
	for _, c := range []struct {
		name    string
		lang    api.Language
		install string
		stderr  string
		want    string
	}{
		{"python", api.Python, "", py("wonder"), pipInstall + " wonder"},
		{"a part of a package", api.Python, "", py("wonder.parts"), pipInstall + " wonder"},
		{"yaml", api.Python, "", py("yaml"), pipInstall + " pyyaml"},
		{"PIL", api.Python, "", py("PIL"), pipInstall + " pillow"},
		{"sklearn", api.Python, "", py("sklearn"), pipInstall + " scikit-learn"},
		{"bs4", api.Python, "", py("bs4"), pipInstall + " beautifulsoup4"},
		{"dateutil", api.Python, "", py("dateutil"), pipInstall + " python-dateutil"},
		{"dotenv", api.Python, "", py("dotenv"), pipInstall + " python-dotenv"},
		{"a second one", api.Python, pipInstall + " wonder", py("yaml"), pipInstall + " wonder pyyaml"},
		{"behind another command", api.Python, "make", py("yaml"), "make && " + pipInstall + " pyyaml"},
		{"installed already", api.Python, pipInstall + " pyyaml", py("yaml"), pipInstall + " pyyaml"},
		{"a typo of json", api.Python, "", py("jsn"), ""},
		{"a typo of collections", api.Python, "", py("colections"), ""},
		{"tkinter", api.Python, "", py("tkinter"), ""},
		{"distutils", api.Python, "", py("distutils"), ""},
		{"an own file", api.Python, "", py("helpers"), ""},
		{"a private name", api.Python, "", py("_private"), ""},
		{"npm", api.JavaScript, "", js("left-pad"), npmInstall + " left-pad"},
		{"a scope", api.JavaScript, "", js("@a/b/c"), npmInstall + " @a/b"},
		{"ws is no typo", api.JavaScript, "", js("ws"), npmInstall + " ws"},
		{"a relative path", api.JavaScript, "", js("./other"), ""},
		{"an absolute path", api.JavaScript, "", js("/workspace/other.js"), ""},
		{"a typo of crypto", api.JavaScript, "", js("crypt0"), ""},
		{"a part of fs", api.JavaScript, "", js("fs/promise"), ""},
		{"no name", api.JavaScript, "", js("$(touch x)"), ""},
		{"an own script", api.JavaScript, "", js("helpers"), ""},
		{"typescript", api.TypeScript, "", js("left-pad"), npmInstall + " left-pad"},
		{"go", api.Go, "", goOld, goInstall},
		{"go with a module", api.Go, "", "main.go:5:2: no required module provides package example.org/x/y; to add it:\n\tgo get example.org/x/y\n", goInstall},
		{"go again", api.Go, goInstall, goOld, goInstall},
		{"a typo of fmt", api.Go, "", "main.go:6:2: cannot find package \"fmtt\" in any of:\n\t/usr/local/go/src/fmtt (from $GOROOT)\n", ""},
		{"a typo besides", api.Go, "", goOld + "main.go:6:2: package fmtt is not in std (/usr/local/go/src/fmtt)\n", ""},
	} {
		a := api.CodeArtifact{Language: c.lang, Install: c.install, Run: "run", Files: []api.File{
			{Path: "main.py", Content: "import x\n"}, {Path: "main.js", Content: "require('crypt0'); require('helpers')\n"}, {Path: "helpers.js"}, {Path: "helpers.py"},
		}}
		d := Diagnose(api.DebugRequest{Artifact: a, Result: api.ExecutionResult{Phase: api.PhaseRun, Category: api.CategoryImport, Exit: api.Exit{Code: 1}, Stderr: c.stderr}})
		got := c.install
		if d.Artifact != nil {
			got = d.Artifact.Install
		}
		if got != c.want {
			t.Errorf("%s: the install command is %q, want %q (%+v)", c.name, got, c.want, d)
		}
	}
}

// TestUninstalledIsAsked: what could not be installed is a question that repeats the reason.
func TestUninstalledIsAsked(t *testing.T) {
	for _, c := range []struct {
		lang    api.Language
		install string
	}{{api.Python, pipInstall + " wonder"}, {api.JavaScript, npmInstall + " wonder"}, {api.Go, goInstall}} {
		const reason = "the registry has no package wonder"
		d := Diagnose(api.DebugRequest{
			Artifact: api.CodeArtifact{Language: c.lang, Install: c.install, Run: "run"},
			Result:   api.ExecutionResult{Phase: api.PhaseInstall, Category: api.CategoryInstall, Exit: api.Exit{Code: 1}, Stderr: "it failed", Detail: reason},
		})
		if d.Artifact != nil || d.Cause != reason || d.Question == "" {
			t.Errorf("%s: %+v", c.lang, d)
		}
	}
}
