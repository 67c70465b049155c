package advice

import (
	"context"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/observe"
	"hortus.dev/internal/repository/toolchain"
)

func TestAdvice(t *testing.T) {
	python := func(path string) func(context.Context, api.CreateSandbox) ([]api.Tool, error) {
		return func(context.Context, api.CreateSandbox) ([]api.Tool, error) {
			return []api.Tool{{Name: "python3", Path: path, Present: true}}, nil
		}
	}
	debian, plain := Adviser{Tools: python("/usr/bin/python3"), Debian: true}, Adviser{Tools: python("/usr/bin/python3")}
	for _, c := range []struct {
		name    string
		adviser Adviser
		req     api.CreateSandbox
		lack    observe.Lack
		says    []string
	}{
		{"known library", debian, api.CreateSandbox{}, observe.Lack{Language: api.Python, Name: "pandas"}, []string{"no Python library pandas", "--setup-egress pip", "Run on the daemon's machine: apt-get install python3-pandas."}},
		{"name of the import", debian, api.CreateSandbox{}, observe.Lack{Language: api.Python, Name: "cv2"}, []string{"apt-get install python3-opencv."}},
		{"another Python", Adviser{Tools: python("/usr/local/bin/python3"), Debian: true}, api.CreateSandbox{}, observe.Lack{Language: api.Python, Name: "numpy"}, []string{"python3 -m pip install numpy"}},
		{"unknown library", debian, api.CreateSandbox{}, observe.Lack{Language: api.Python, Name: "My_Own.thing"}, []string{"apt-cache search python3-my-own.thing", "add it to the files"}},
		{"npm's library", debian, api.CreateSandbox{}, observe.Lack{Language: api.JavaScript, Name: "@scope/part"}, []string{"JavaScript library @scope/part", "apt-cache search node-scope-part"}},
		{"command", debian, api.CreateSandbox{}, observe.Lack{Name: "cargo"}, []string{"no command cargo", "apt-get install cargo."}},
		{"command of a language", debian, api.CreateSandbox{}, observe.Lack{Name: "php"}, []string{"apt-get install php-cli."}},
		{"unknown command", debian, api.CreateSandbox{}, observe.Lack{Name: "frob"}, []string{"apt-cache search frob"}},
		{"pip", debian, api.CreateSandbox{}, observe.Lack{Installer: "pip"}, []string{"pip could not install", "PEP 668", "apt-get install python3-NAME"}},
		{"go", debian, api.CreateSandbox{}, observe.Lack{Installer: "go"}, []string{"go could not download modules", "--egress go", "go mod vendor"}},
		{"no Debian", plain, api.CreateSandbox{}, observe.Lack{Language: api.Python, Name: "pandas"}, []string{"below /usr on the daemon's machine"}},
		{"another template", debian, api.CreateSandbox{Template: "numbers"}, observe.Lack{Name: "jq"}, []string{"apt-get install jq.", `create the template "numbers" again`}},
	} {
		got := c.adviser.install(t.Context(), c.req, c.lack)
		for _, want := range append(c.says, "hortus doctor") {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q is not in %q", c.name, want, got)
			}
		}
		if c.adviser.Debian == false && strings.Contains(got, "apt") {
			t.Errorf("%s: %q names packages of Debian", c.name, got)
		}
	}
}

// TestMissingToolchain: a gate that lacks a program is told of the toolchain of the machine that has it, and of the repository's image.
func TestMissingToolchain(t *testing.T) {
	a := Adviser{Debian: true,
		Needs: func(context.Context, api.Task) toolchain.Needs {
			return toolchain.Needs{Image: "rust:1.80", ImageFile: "Dockerfile"}
		},
		Toolchains: func() []api.Toolchain {
			return []api.Toolchain{{Name: "rust", Version: "stable", Setting: "rust@stable"}}
		},
	}
	got := a.Advise(t.Context(), api.Task{Repo: &api.RepoResult{Before: &api.Gate{Output: "sh: 1: cargo: not found\n"}}})
	for _, want := range []string{"apt-get install cargo", "HORTUS_TOOLCHAINS=auto,rust@stable", "--image rust:1.80"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}

// TestNothingElse: without either the repository's needs are listed by a command.
func TestNothingElse(t *testing.T) {
	a := Adviser{Debian: true, Needs: func(context.Context, api.Task) toolchain.Needs { return toolchain.Needs{} }, Toolchains: func() []api.Toolchain { return nil }}
	got := a.Advise(t.Context(), api.Task{Repo: &api.RepoResult{Before: &api.Gate{Output: "sh: 1: cargo: not found\n"}}})
	if !strings.Contains(got, "apt-get install cargo") || !strings.Contains(got, "hortus doctor --repo .") {
		t.Errorf("%q", got)
	}
}

// TestLackOf: what a task lacked is found in its attempts, or in the last gate of its repository.
func TestLackOf(t *testing.T) {
	attempt := func(res api.ExecutionResult) api.Attempt {
		return api.Attempt{Artifact: api.CodeArtifact{Language: api.Python}, Result: &res}
	}
	missed := attempt(api.ExecutionResult{Phase: api.PhaseRun, Category: api.CategoryImport, Missing: "pandas"})
	install := attempt(api.ExecutionResult{Phase: api.PhaseInstall, Category: api.CategoryInstall, Stderr: "error: externally-managed-environment\n"})
	gate := func(passed bool, output string) *api.Gate { return &api.Gate{Passed: passed, Output: output} }
	const noPytest = "/usr/bin/python3: No module named pytest\n"
	for _, c := range []struct {
		name string
		task api.Task
		want observe.Lack
	}{
		{"an import", api.Task{Attempts: []api.Attempt{missed}}, observe.Lack{Language: api.Python, Name: "pandas"}},
		{"an import, then its installation", api.Task{Attempts: []api.Attempt{missed, install}}, observe.Lack{Language: api.Python, Name: "pandas"}},
		{"an installation", api.Task{Attempts: []api.Attempt{install}}, observe.Lack{Installer: "pip"}},
		{"a program that calls pip", api.Task{Attempts: []api.Attempt{attempt(api.ExecutionResult{Phase: api.PhaseRun, Category: api.CategoryUnknown, Stderr: "error: externally-managed-environment\n"})}}, observe.Lack{Installer: "pip"}},
		{"a command", api.Task{Attempts: []api.Attempt{attempt(api.ExecutionResult{Phase: api.PhaseRun, Category: api.CategoryCommand, Missing: "cargo"})}}, observe.Lack{Name: "cargo"}},
		{"an import, then something else", api.Task{Attempts: []api.Attempt{missed, attempt(api.ExecutionResult{Phase: api.PhaseRun, Category: api.CategoryType, Stderr: "TypeError: no\n"})}}, observe.Lack{}},
		{"nothing ran", api.Task{}, observe.Lack{}},
		{"the gate before", api.Task{Repo: &api.RepoResult{Before: gate(false, noPytest), Rounds: []api.Round{{N: 1}}}}, observe.Lack{Language: api.Python, Name: "pytest"}},
		{"the gate of a round", api.Task{Repo: &api.RepoResult{Before: gate(true, ""), Rounds: []api.Round{{N: 1, Gate: gate(false, "sh: 1: jq: not found\n")}, {N: 2}}}}, observe.Lack{Name: "jq"}},
		{"a gate that failed by itself", api.Task{Repo: &api.RepoResult{Before: gate(false, noPytest), Rounds: []api.Round{{N: 1, Gate: gate(false, "AssertionError\n")}}}}, observe.Lack{}},
		{"a gate that passes", api.Task{Repo: &api.RepoResult{Before: gate(true, noPytest)}}, observe.Lack{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := lackOf(c.task)
			if got != c.want || ok != (c.want != observe.Lack{}) {
				t.Errorf("it lacks %+v (%t), want %+v", got, ok, c.want)
			}
		})
	}
}

// TestCause: what the setup did not install, and what the repository has itself, is not called a missing package.
func TestCause(t *testing.T) {
	gate := func(output string) api.Task {
		return api.Task{Outcome: api.OutcomeNeedsHuman, Repo: &api.RepoResult{Before: &api.Gate{Output: output}}}
	}
	a := Adviser{Debian: true, Tools: func(context.Context, api.CreateSandbox) ([]api.Tool, error) { return nil, nil }, Provided: func(_ context.Context, _ api.Task, l api.Language, name string) string {
		if l == api.JavaScript && name == "@shop/core" {
			return "packages/core"
		}
		return ""
	}}
	noJest, noCore, noPytest := gate("Error: Cannot find module 'jest'\n"), gate("Error: Cannot find module '@shop/core'\n"), gate("/usr/bin/python3: No module named pytest\n")
	left := api.NotInstalled{Language: api.JavaScript, Program: "pnpm", Why: "pnpm install is left out: the sandbox has no pnpm"}
	unlocked := api.NotInstalled{Why: "package.json has dependencies and no lock file, so they are not installed"}
	with := func(t api.Task, all ...api.NotInstalled) api.Task {
		r := *t.Repo
		r.NotInstalled = all
		t.Repo = &r
		return t
	}
	for _, c := range []struct {
		name        string
		task        api.Task
		says, lacks string
	}{
		{"a step was left out", with(noJest, left), "pnpm install is left out: the sandbox has no pnpm. The sandbox has no command pnpm.", "node-jest"},
		{"a step failed", with(noJest, api.NotInstalled{Language: api.JavaScript, Why: "step npm ci: exit 1: no such lock"}), "not complete: step npm ci: exit 1", "node-jest"},
		{"a library that a step did not install", with(gate("E   ModuleNotFoundError: No module named 'freezegun'\n"), api.NotInstalled{Language: api.Python, Why: "step pip install: exit 1: none"}), "or install the library on the daemon's machine: python3 -m pip install freezegun.", "setup.yaml"},
		{"two reasons", with(noJest, unlocked, left), "not complete (and 1 more): package.json has dependencies", "node-jest"},
		{"another language's step", with(noPytest, left), "no Python library pytest", "pnpm"},
		{"a package of the repository", noCore, "@shop/core, which is a package of the repository itself (packages/core)", "apt-cache"},
		{"the control", noJest, "node-jest", "setup"},
	} {
		if got := a.Advise(t.Context(), c.task); !strings.Contains(got, c.says) || strings.Contains(strings.ReplaceAll(got, "--setup-egress", ""), c.lacks) {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}
