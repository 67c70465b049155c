package gate_test

import (
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/task/gate"
	"hortus.dev/internal/task/gate/report"
)

// TestDetectRanks: what runs tests comes before what may, and linters alone are never a gate.
func TestDetectRanks(t *testing.T) {
	type files = map[string]string
	const (
		ctest    = "cmake -B build && cmake --build build && ctest --test-dir build --output-on-failure --no-tests=error"
		ruffOnly = "the target check of the Makefile only runs ruff"
	)
	script := func(pairs ...string) string {
		var all []string
		for i := 0; i < len(pairs); i += 2 {
			all = append(all, `"`+pairs[i]+`":"`+pairs[i+1]+`"`)
		}
		return `{"scripts":{` + strings.Join(all, ",") + `}}`
	}
	for _, c := range []struct {
		name  string
		files files
		want  string
		from  string // for no command, part of the error
	}{
		{"a linter and a runner", files{"package.json": script("test", "xo && ava && tsd")}, "npm test --silent", "scripts.test of package.json runs xo and tsd and ava"},
		{"a linter alone", files{"package.json": script("test", "xo")}, "", "scripts.test of package.json only runs xo"},
		{"a linter, and tests of node", files{"package.json": script("test", "xo"), "test.js": "import test from 'node:test'"}, "node --test", "test.js; scripts.test of package.json only runs xo"},
		{"a linter, and a script with tests", files{"package.json": script("test", "eslint .", "test:unit", "c8 --all mocha test/")}, "npm run --silent test:unit", "scripts.test:unit of package.json runs mocha; scripts.test of package.json only runs eslint"},
		{"scripts that call scripts", files{"package.json": script("test", "npm run lint && npm run unit", "lint", "eslint .", "unit", "vitest run")}, "npm test --silent", "scripts.test of package.json runs eslint and vitest"},
		{"scripts that call themselves", files{"package.json": script("test", "npm run a", "a", "npm test")}, "npm test --silent", "scripts.test of package.json"},
		{"run-s with a pattern", files{"package.json": script("test", "run-s test:*", "test:lint", "standard", "test:js", "tape test/*.js")}, "npm test --silent", "scripts.test of package.json runs standard and tape"},
		{"a monorepo with workspaces", files{"package.json": script("test", "npm test --workspaces"), "packages/calc/package.json": script("test", "jest")}, "npm test --silent", "scripts.test of package.json runs the tests of the workspaces"},
		{"a script of the repository", files{"package.json": script("test", "node scripts/run.js && tsc"), "go.mod": ""}, "npm test --silent", "scripts.test of package.json runs node scripts/run.js"},
		{"a runner of a package manager", files{"package.json": script("test", "pnpm lint && pnpm vitest run > log 2>&1", "lint", "oxlint src")}, "npm test --silent", "scripts.test of package.json runs oxlint and vitest"},
		{"cross-env", files{"package.json": script("test", "cross-env NODE_ENV=test npx jest --ci")}, "npm test --silent", "scripts.test of package.json runs jest"},

		{"a Makefile with a linter first", files{"Makefile": "check:\n\truff check .\n\ntest:\n\tpytest -q\n"}, "make test", "the target test of the Makefile runs pytest; " + ruffOnly},
		{"src layout, a Makefile that lints", files{"Makefile": "check:\n\truff check src\n", "pyproject.toml": "[tool.pytest.ini_options]\n", "src/calc/__init__.py": "", "tests/test_calc.py": "import calc"},
			"python3 -m pytest -q", "pyproject.toml; " + ruffOnly},
		{"nothing but a linter", files{"Makefile": "check:\n\truff check .\n"}, "", ruffOnly},
		{"a target by its needs", files{"Makefile": ".PHONY: test\ntest: lint unit\nlint:\n\truff check .\nunit:\n\t$(PY) -m pytest tests\n"}, "make test", "the target test of the Makefile runs ruff and pytest"},
		{"a target by variables", files{"Makefile": "PYTEST ?= python3 -m pytest\nARGS = -q\ntest: ## run tests\n\t@$(PYTEST) $(ARGS)\n"}, "make test", "the target test of the Makefile runs pytest"},
		{"a target that calls make", files{"Makefile": "test:\n\t$(MAKE) unit\nunit:\n\tgo test ./...\n", "go.mod": ""}, "make test", "the target test of the Makefile runs go test"},
		{"a target that calls npm", files{"Makefile": "test:\n\tnpm run unit\n", "package.json": script("unit", "jest")}, "npm run --silent unit", "scripts.unit of package.json runs jest"},
		{"a linter and what is not known", files{"Makefile": "test:\n\truff check .\n\t$(RUN)\n"}, "make test", "the target test of the Makefile"},
		{"needs with a pattern", files{"Makefile": "test-short: ARGS=-short\ntest: $(DIRS:%=test/%)\ntest/%:\n\tcd $* && go test ./...\n", "go.mod": ""}, "make test", "the target test of the Makefile"},
		{"a variable of one target", files{"Makefile": "test: ARGS=-short\n", "go.mod": ""}, "go test ./...", "go.mod"},
		{"recursion", files{"Makefile": "A = $(B)\nB = $(A)\ntest: check\n\t$(A)\ncheck: test\n"}, "make test", "the target test of the Makefile"},
		{"tests, and a target that checks something", files{"Makefile": "check:\n\t./tools/check.sh\n", "go.mod": ""}, "go test ./...", "go.mod"},
		{"tests of the maintainers whose runner is not known", files{"Makefile": "test: build\n\t./tools/test.sh\n", "go.mod": ""}, "make test", "the target test of the Makefile runs test.sh"},

		{"C with cmake", files{"CMakeLists.txt": "project(c C)\nenable_testing()\nadd_test(NAME a COMMAND a)\n"}, ctest, "found ctest in CMakeLists.txt"},
		{"C with cmake and a demo", files{"CMakeLists.txt": "project(c C)\n  Include ( CTest )\n", "Makefile": "test: demo\n\t./demo\ndemo: demo.c\n\t$(CC) -o demo demo.c\n"}, ctest,
			"found ctest in CMakeLists.txt; the target test of the Makefile runs demo"},
		{"C with cmake and a linter", files{"CMakeLists.txt": "ENABLE_TESTING()\n", "Makefile": "check:\n\truff check tools\n"}, ctest, "found ctest in CMakeLists.txt; " + ruffOnly},
		{"C with a directory build", files{"CMakeLists.txt": "enable_testing()", "build/a.sh": ""}, strings.ReplaceAll(strings.ReplaceAll(ctest, " build", " cmake-build"), "--cmake-build", "--build"), "found ctest in CMakeLists.txt"},
		{"cmake without tests", files{"CMakeLists.txt": "project(c C)\n# enable_testing()\n"}, "", "no known test command"},

		{"a Rust workspace", files{"Cargo.toml": "[workspace]\nmembers = [\"a\"]\n", "a/Cargo.toml": "[package]"}, "cargo test --quiet", "Cargo.toml has a workspace"},
		{"a Rust workspace with a package", files{"Cargo.toml": "[package]\nname = \"x\"\n[workspace] # all\n"}, "cargo test --workspace --quiet", "Cargo.toml has a workspace"},
		{"Go with a workspace", files{"go.work": "go 1.24\nuse (\n\t.\n\t./tool // a tool\n)\nuse ./more\n", "go.mod": "", "tool/go.mod": "", "more/go.mod": "", "not/go.mod": ""},
			"go test ./... ./more/... ./tool/...", "go.work has 3 modules"},
		{"Go with a module further down", files{"go.mod": "", "tool/go.mod": "", "vendor/x/go.mod": "", "a/testdata/go.mod": ""}, "go test ./...", "go.mod; modules of their own are not tested: tool"},
		{"Go with modules and none at the top", files{"a/go.mod": "", "b/c/go.mod": ""}, "(cd a && go test ./...) && (cd b/c && go test ./...)", "go.mod of 2 modules"},
		{"Go in a directory with a hostile name", files{"$(touch x)/go.mod": ""}, "", "no known test command"},
		{"tox that runs pytest", files{"tox.ini": "[testenv]\ncommands = pytest\n", "tests/test_a.py": "def test_a(): pass"}, "python3 -m pytest -q", "tox.ini runs pytest"},
		{"tox alone", files{"tox.ini": "[testenv]\ncommands = python run.py\n"}, "tox -q", "tox.ini"},
		{"a project of C with one file that looks like a test of Python", files{"Makefile": "check:\n\t./run.sh\n", "tools/test_gen.py": ""}, "make check", "the target check of the Makefile runs run.sh"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := gate.Detect(tree(c.files))
			if c.want == "" {
				if api.KindOf(err) != api.KindNotFound || !strings.Contains(err.Error(), c.from) {
					t.Errorf("%+v %v, want an error with %q", got, err, c.from)
				}
				return
			}
			if err != nil || got.Text != c.want || got.From != c.from {
				t.Errorf("%v\ngot  %q from %q\nwant %q from %q", err, got.Text, got.From, c.want, c.from)
			}
		})
	}
}

// TestWatchedDirectories: a directory in the gate's command makes no file a test; what is executed as a file is one, and a file of
// which the runner reported tests.
func TestWatchedDirectories(t *testing.T) {
	check := &gate.Check{}
	check.Tests.Tests = map[string]report.Outcome{
		"qa/unit/check_a.py::TestA::test_x": report.Passed, "packages/calc/doc.py::packages.calc.doc.f": report.Passed, "qa/node/add.mjs > adds": report.Passed, "check_b.T.test_b": report.Passed,
	}
	for _, c := range []struct {
		command, path string
		want          bool
	}{
		{"cd packages/calc && python3 -m pytest", "packages/calc/calc.py", false},
		{"cd packages/calc && python3 -m pytest", "packages/calc/doc.py", false},
		{"cd packages/calc && python3 -m pytest", "packages/calc/test_calc.py", true},
		{"cd packages/calc && python3 -m pytest", "packages/calc/conftest.py", true},
		{"npm --prefix packages/calc test", "packages/calc/index.js", false},
		{"npm --prefix=packages/calc test", "packages/calc/index.js", false},
		{"npm test --workspace packages/calc", "packages/calc/src/a.ts", false},
		{"npm test --workspace packages/calc", "packages/calc/src/a.test.ts", true},
		{"make -C lib/c check", "lib/c/sum.c", false},
		{"make -C lib/c check", "lib/c/Makefile", true},
		{"go test ./pkg/calc/...", "pkg/calc/calc.go", false},
		{"go test ./pkg/calc", "pkg/calc/calc.go", false},
		{"go test ./pkg/calc", "pkg/calc/calc_test.go", true},
		{"(cd a/b && go test ./...) && (cd c/d && go test ./...)", "c/d/x.go", false},
		{"cd packages/calc && sh ci/verify.sh", "packages/calc/ci/verify.sh", true},
		{"cd packages/calc && sh ci/verify.sh", "packages/calc/ci/other.sh", false},
		{"make -C packages/calc -f ci/rules.mk all", "packages/calc/ci/rules.mk", true},
		{"(cd a && sh x.sh); sh y.sh", "a/y.sh", false},
		{"(cd a && sh x.sh); sh y.sh", "y.sh", true},
		{"/workspace/tools/verify", "tools/verify", true},
		{"sh 'tools/verify.sh' --x", "tools/verify.sh", true},
		{"sh tools/verify.sh", "tools", true}, // a link in place of the directory
		{"cd packages/calc && pytest", "packages", true},
		{"run-parts ci/checks", "ci/checks/10-sums", true},
		{"python3 ci/checks", "ci/checks/__main__.py", true},
		{"python3 ci/checks", "ci/checks/data.py", false},
		{"pytest qa/unit", "qa/unit/check_a.py", true},
		{"pytest qa/unit", "qa/unit/helper.py", false},
		{"python3 -m unittest discover -s qa/unit -p 'check_*.py'", "qa/unit/check_b.py", true},
		{"python3 -m unittest", "qa/unit/check_b.py", false}, // the command does not lead there
		{"node --test qa/node/", "qa/node/add.mjs", true},
		{"bats ci/all", "ci/all/sum.bats", true},
		{"sh run.sh > tools/a.sh", "tools/a.sh", false},
		{"sh tools/a.sh 2>&1 | tee log", "tools/a.sh", true},
		{"# tools/a.sh\nsh tools/b.sh", "tools/a.sh", false},
	} {
		if got := gate.Watched(c.command, c.path, check.Reported); got != c.want {
			t.Errorf("%s: %s: %v, want %v", c.command, c.path, got, c.want)
		}
	}
}

// TestAbsent: only a gate without its runner could not start. Whatever the agent may be able to do is left to it.
func TestAbsent(t *testing.T) {
	for _, c := range []struct {
		name, command, output string
		code                  int
		request               string
		paths                 []string
		want                  string
	}{
		{name: "no pytest", command: "python3 -m pytest -q", output: "/usr/bin/python3: No module named pytest\n", code: 1, want: "pytest"},
		{name: "no pytest under make", command: "make test", output: "python3 -m pytest\n/usr/bin/python3: No module named pytest\nmake: *** [Makefile:2: test] Error 1\n", code: 2, want: "pytest"},
		{name: "a module of the product", command: "python3 -m pytest -q", output: "E   ModuleNotFoundError: No module named 'calc'\n", code: 2},
		{name: "a module of the product that is run", command: "python3 -m calc", output: "/usr/bin/python3: No module named calc\n", code: 1},
		{name: "another runner in a test", command: "python3 -m unittest", output: "ModuleNotFoundError: No module named 'pytest'\n", code: 1},
		{name: "no mocha", command: "npm test --silent", output: "sh: 1: mocha: not found\n", code: 127, want: "mocha"},
		{name: "no mocha in the modules", command: "node_modules/.bin/mocha", output: "sh: 1: node_modules/.bin/mocha: not found\n", code: 127, want: "mocha"},
		{name: "no cmake", command: "cmake -B build && ctest", output: "sh: 1: cmake: not found\n", code: 127, want: "cmake"},
		{name: "no cmake under make", command: "make test", output: "make: cmake: No such file or directory\nmake: *** [Makefile:2: test] Error 127\n", code: 2, want: "cmake"},
		{name: "bash", command: "cargo test", output: "bash: line 1: cargo: command not found\n", code: 127, want: "cargo"},
		{name: "no java", command: "./gradlew test", output: "\nERROR: JAVA_HOME is not set and no 'java' command could be found in your PATH.\n", code: 1, want: "java"},
		{name: "a program that is not known", command: "frobnicate --all", output: "sh: 1: frobnicate: not found\n", code: 127, want: "frobnicate"},
		{name: "a program to write", command: "PATH=bin:$PATH frobnicate --all", output: "sh: 1: frobnicate: not found\n", code: 127, request: "Write the program frobnicate."},
		{name: "a program of the repository", command: "frobnicate", output: "sh: 1: frobnicate: not found\n", code: 127, paths: []string{"bin/frobnicate"}},
		{name: "a program that the command does not call", command: "sh run.sh", output: "run.sh: 1: frobnicate: not found\n", code: 127},
		{name: "a script to write", command: "./verify.sh", output: "sh: 1: ./verify.sh: not found\n", code: 127},
		{name: "a script to write for sh", command: "sh verify.sh", output: "sh: 0: cannot open verify.sh: No such file\n", code: 2},
		{name: "a runner to add", command: "npm test", output: "sh: 1: vitest: not found\n", code: 127, request: "Add vitest and tests of the sum"},
		{name: "a runner that is only named", command: "npm test", output: "sh: 1: vitest: not found\n", code: 127, request: "the vitest suite fails", want: "vitest"},
		{name: "a line of a test", command: "go test ./...", output: "make: not found\n", code: 1},
		{name: "a file is not found", command: "pytest", output: "ERROR: file or directory not found: x\n", code: 4},
		{name: "it passed", command: "npm test", output: "sh: 1: mocha: not found\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := api.Gate{Output: c.output, Passed: c.code == 0, Exit: api.Exit{Code: c.code}}
			if got := gate.Absent(c.command, g, c.request, c.paths); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			g.Tests = &api.TestReport{}
			if gate.Absent(c.command, g, c.request, c.paths) != "" {
				t.Error("tests were reported, so it started")
			}
		})
	}
}

// TestUnloaded: a gate that ran tests was loaded, and a package that the request is about may be what is to be written.
func TestUnloaded(t *testing.T) {
	failed := api.Gate{Exit: api.Exit{Code: 2}, Tests: &api.TestReport{Failed: 2}}
	for _, c := range []struct {
		name, request string
		change        func(*api.Gate)
		want          bool
	}{
		{name: "no test passed", change: func(*api.Gate) {}, want: true},
		{name: "no report", change: func(g *api.Gate) { g.Tests = nil }, want: true},
		{name: "a test passed", change: func(g *api.Gate) { g.Tests = &api.TestReport{Passed: 1, Failed: 2} }},
		{name: "it passed", change: func(g *api.Gate) { g.Passed, g.Exit.Code = true, 0 }},
		{name: "its time was over", change: func(g *api.Gate) { g.Exit.Cause = api.CauseTimeout }},
		{name: "the request names it", request: "Write the module calc.", change: func(*api.Gate) {}},
	} {
		g := failed
		if c.change(&g); gate.Unloaded(g, c.request, "calc") != c.want {
			t.Errorf("%s: %t", c.name, !c.want)
		}
	}
}

// TestColours: tests that are about the variables of colours are known by those.
func TestColours(t *testing.T) {
	for text, want := range map[string]bool{"process.env.FORCE_COLOR = '1'": true, "delete process.env.NO_COLOR": true, "const COLOR = 1": false} {
		if got := gate.Colours(tree(map[string]string{"lib/colour.js": "NO_COLOR", "test/colour.test.js": text})); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}

// TestTestsAlone: what comes last in npm's script test is named, if other scripts come before it.
func TestTestsAlone(t *testing.T) {
	for script, want := range map[string]string{
		"npm run build && npm run format && npm run unit": "npm run --silent unit", "npm run build && node --test": "", "npm run unit": "", "npm run build && npm run none": "",
		"npm run build && npm run unit;id": "",
	} {
		files := tree(map[string]string{"package.json": `{"scripts":{"test":"` + script + `","unit":"ava","build":"tsc"}}`})
		if got := gate.TestsAlone(files, "npm test --silent"); got != want {
			t.Errorf("%s: %q", script, got)
		}
		if got := gate.TestsAlone(files, "make test"); got != "" {
			t.Errorf("another gate: %q", got)
		}
	}
}
