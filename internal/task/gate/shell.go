package gate

import (
	"path"
	"slices"
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

// simpleCommand is one command of a piece of shell.
type simpleCommand struct {
	words []string
	// vars are its variables, such as A=1.
	vars []string
	// dir is where it runs, as far as cd says, relative to where the shell begins.
	dir string
}

// program is the name that is executed.
func (c simpleCommand) program() string { return c.words[0] }

var (
	assignment = lazyregexp.New(`^[A-Za-z_]\w*\+?=`)
	// keywords stand before a command and are none.
	keywords = []string{"if", "then", "else", "elif", "fi", "do", "done", "while", "until", "{", "}", "!", "time", "exec", "command", "env", "sudo"}
)

// commandsOf splits a piece of shell into its simple commands. It knows quotes, comments, operators and subshells, and no
// expansion: a word with a variable stays as it is written.
func commandsOf(text string) (out []simpleCommand) {
	var (
		words []string
		word  strings.Builder
		open  bool // a word has begun
		// output is true if the word is a file that is written, which is no part of the command.
		output bool
		quote  rune
		dirs   = []string{""}
	)
	endWord := func() {
		if open && !output {
			words = append(words, word.String())
		}
		if open {
			open, output = false, false
			word.Reset()
		}
	}
	endCommand := func() {
		endWord()
		var vars []string
		for len(words) > 0 && (assignment.MatchString(words[0]) || slices.Contains(keywords, words[0])) {
			if !slices.Contains(keywords, words[0]) {
				vars = append(vars, words[0])
			}
			words = words[1:]
		}
		if len(words) > 0 {
			dir := &dirs[len(dirs)-1]
			out = append(out, simpleCommand{words, vars, *dir})
			if words[0] == "cd" && len(words) == 2 {
				*dir = path.Join(*dir, words[1])
			}
		}
		words, output = nil, false
	}
	comment, escaped := false, false
	for _, r := range text {
		switch {
		case comment:
			if comment = r != '\n'; !comment {
				endCommand()
			}
		case escaped:
			escaped = false
			if r != '\n' {
				word.WriteRune(r)
				open = true
			}
		case r == '\\' && quote != '\'':
			escaped = true
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word.WriteRune(r)
			}
		case r == '\'' || r == '"':
			quote, open = r, true
		case r == '#' && !open:
			comment = true
		case r == ' ' || r == '\t':
			endWord()
		case r == '<':
			endWord()
		case r == '>':
			if open && isNumber(word.String()) {
				open = false // a descriptor
				word.Reset()
			}
			endWord()
			output = true
		case r == '&' && output && !open:
		case strings.ContainsRune("\n;&|`", r):
			endCommand()
		case r == '(' && !strings.HasSuffix(word.String(), "$"):
			endCommand()
			dirs = append(dirs, dirs[len(dirs)-1])
		case r == ')' && !strings.Contains(word.String(), "$("):
			if endCommand(); len(dirs) > 1 {
				dirs = dirs[:len(dirs)-1]
			}
		default:
			word.WriteRune(r)
			open = true
		}
	}
	endCommand()
	return out
}

// wrappers run the command that follows, perhaps after options of their own.
var wrappers = []string{"npx", "bunx", "uvx", "c8", "nyc", "cross-env", "dotenv", "xvfb-run", "timeout", "nice", "coverage"}

// managers run scripts of package.json, or what the packages installed.
var managers = []string{"npm", "pnpm", "yarn", "bun"}

// environments run the command that follows "run" in their environment.
var environments = []string{"uv", "poetry", "pipenv", "pdm", "hatch", "rye", "conda", "bundle", "npm", "pnpm", "yarn", "bun"}

var (
	// testers are programs that run and report tests, and nothing else.
	testers = []string{"pytest", "py.test", "unittest", "tox", "nox", "nosetests", "nose2", "stestr", "trial", "jest", "vitest", "mocha", "ava", "tap", "tape", "jasmine",
		"karma", "uvu", "lab", "wtr", "qunit", "brittle", "cypress", "testem", "ctest", "rspec", "phpunit", "pest", "gotestsum", "ginkgo", "bats", "busted", "prove"}
	// testVerbs are arguments with which other programs run tests.
	testVerbs = map[string][]string{
		"node": {"--test"}, "go": {"test"}, "cargo": {"test", "nextest", "t"}, "mvn": {"test", "verify", "package", "install"}, "mvnw": {"test", "verify", "package", "install"},
		"gradle": {"test", "check", "build"}, "gradlew": {"test", "check", "build"}, "dotnet": {"test"}, "swift": {"test"}, "meson": {"test"}, "ninja": {"test"}, "zig": {"test"}, "mix": {"test"},
		"rake": {"test", "spec"}, "deno": {"test"}, "react-scripts": {"test"}, "ng": {"test"}, "vue-cli-service": {"test:unit"}, "playwright": {"test"}, "lerna": {"test"},
		"turbo": {"test"}, "nx": {"test"}, "hatch": {"test"}, "sbt": {"test"}, "lein": {"test"}, "stack": {"test"}, "cabal": {"test"}, "dune": {"test", "runtest"},
		"dart": {"test"}, "flutter": {"test"}, "bazel": {"test"}, "bun": {"test"}, "rebar3": {"eunit", "ct"}, "aegir": {"test"}, "tsdx": {"test"}, "rails": {"test"}, "crystal": {"spec"},
	}
	// linters look at the text of a program, or at its types, and do not run it.
	linters = []string{"ruff", "flake8", "black", "isort", "mypy", "pyright", "basedpyright", "pylint", "pyflakes", "pycodestyle", "pydocstyle", "bandit", "pre-commit", "prek",
		"eslint", "xo", "standard", "semistandard", "ts-standard", "prettier", "tslint", "tsc", "tsd", "vue-tsc", "stylelint", "biome", "jshint", "jscs", "oxlint", "oxfmt", "tsgo", "dtslint",
		"golangci-lint", "gofmt", "goimports", "staticcheck", "revive", "govulncheck", "golint", "shellcheck", "shfmt", "hadolint", "yamllint", "markdownlint", "clang-format",
		"clang-tidy", "cppcheck", "rubocop", "rustfmt", "codespell", "check-manifest", "twine", "publint", "knip", "attw", "size-limit", "ktlint", "vulture", "interrogate",
		"deptry", "typos", "reuse", "luacheck", "swiftlint", "buf", "depcheck", "ty", "installed-check", "npmPkgJsonLint", "commitlint"}
	lintVerbs = map[string][]string{"go": {"vet", "fmt"}, "cargo": {"fmt", "clippy", "check", "deny", "audit"}, "npm": {"audit"}, "tsdx": {"lint"}, "ng": {"lint"}, "deno": {"lint", "fmt"}}
	// neutral prepare, build or print.
	neutral = []string{"echo", "printf", "cd", "rm", "mkdir", "mv", "cp", "ln", "touch", "true", ":", "test", "[", "set", "export", "exit", "pip", "pip3", "cmake", "cc", "gcc", "g++",
		"c++", "clang", "clang++", "go", "cargo", "npm", "pnpm", "yarn", "bun", "uv", "poetry", "install", "ar", "ranlib", "rimraf", "del-cli", "mkdirp", "which", "cat", "sed", "grep", "rollup",
		"webpack", "esbuild", "tsup", "babel", "swc", "git", "sleep", "source", ".", "unset", "$(CC)", "$(CXX)", "${CC}", "$(AR)", "$(RM)"}
)

// does is what a piece of shell runs.
type does struct {
	tests, lints, other []string
	// goTests are the variables and the arguments of each go test.
	goTests [][]string
}

// join adds what another piece of shell runs, which this one calls.
func (d *does) join(of does) {
	for _, list := range []struct {
		to   *[]string
		from []string
	}{{&d.tests, of.tests}, {&d.lints, of.lints}, {&d.other, of.other}} {
		for _, name := range list.from {
			d.add(list.to, name)
		}
	}
	for _, args := range of.goTests {
		d.goTest(args)
	}
}

// goTest adds a go test.
func (d *does) goTest(args ...[]string) {
	const most = 20
	if len(d.goTests) < most {
		d.goTests = append(d.goTests, slices.Concat(args...))
	}
}

func (d *does) add(list *[]string, name string) {
	const most = 20
	if len(*list) < most && !slices.Contains(*list, name) {
		*list = append(*list, name)
	}
}

// sayable is the name of a program that a person may read.
var sayable = lazyregexp.New(`^[A-Za-z0-9_][\w.+:-]*(?: [\w./:+-]+)*$`)

// onlyLints reports whether it runs linters and nothing else that could be a test.
func (d does) onlyLints() bool { return len(d.lints) > 0 && len(d.tests)+len(d.other) == 0 }

// says names what it runs.
func (d does) says() string {
	const most = 4
	var all []string
	switch {
	case len(d.tests) > 0:
		all = append(slices.Clone(d.lints), d.tests...)
	case d.onlyLints():
		all = d.lints
	default:
		all = d.other
	}
	all = slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !sayable.MatchString(name) })
	if len(all) > most {
		// The tests are why it was chosen.
		all = all[len(all)-most:]
	}
	return strings.Join(all, " and ")
}

// classify adds what a simple command runs. script is asked about a script of package.json, and target about one of a Makefile; they report
// whether there is one.
func (d *does) classify(c simpleCommand, script, target func(name string) bool) {
	w := c.words
	for {
		name := path.Base(w[0])
		rest := w[1:]
		switch {
		case isPython(name):
			i := slices.Index(rest, "-m")
			if i < 0 || i+1 == len(rest) {
				d.add(&d.other, program(w))
				return
			}
			w = rest[i+1:]
			continue
		case name == "coverage" && slices.Contains(rest, "-m"):
			w = rest[slices.Index(rest, "-m"):]
			if len(w) < 2 {
				return
			}
			w = w[1:]
			continue
		case slices.Contains(managers, name) && d.manager(name, rest, script):
			return
		case slices.Contains(managers, name) && len(rest) > 0 && (slices.Contains(testers, rest[0]) || slices.Contains(linters, rest[0])):
			w = rest // yarn jest
			continue
		case slices.Contains(environments, name) && len(rest) > 0 && (rest[0] == "run" || rest[0] == "exec" || rest[0] == "dlx" || rest[0] == "x"),
			slices.Contains(wrappers, name):
			if slices.Contains(environments, name) {
				rest = rest[1:]
			}
			for len(rest) > 0 && (strings.HasPrefix(rest[0], "-") || assignment.MatchString(rest[0]) || isNumber(rest[0])) {
				rest = rest[1:]
			}
			if len(rest) == 0 {
				return
			}
			w = rest
			continue
		case name == "make" || name == "gmake" || w[0] == "$(MAKE)" || w[0] == "${MAKE}":
			d.make(rest, target)
			return
		case name == "run-s" || name == "run-p" || name == "npm-run-all" || name == "npm-run-all2" || name == "concurrently":
			for _, s := range rest {
				if s = strings.TrimPrefix(s, "npm:"); !strings.HasPrefix(s, "-") && !script(s) {
					d.add(&d.other, name)
				}
			}
			return
		}
		verb := func(of map[string][]string) string {
			i := slices.IndexFunc(rest, func(r string) bool { return slices.Contains(of[name], r) })
			if i < 0 {
				return ""
			}
			return name + " " + rest[i]
		}
		switch {
		case slices.Contains(testers, name):
			d.add(&d.tests, name)
			if i := slices.Index(rest, "--"); name == "gotestsum" {
				d.goTest(c.vars, rest[i+1:])
			}
		case verb(testVerbs) != "":
			d.add(&d.tests, verb(testVerbs))
			if name == "go" {
				d.goTest(c.vars, rest)
			}
		case slices.Contains(linters, name):
			d.add(&d.lints, name)
		case verb(lintVerbs) != "":
			d.add(&d.lints, verb(lintVerbs))
		case !slices.Contains(neutral, name) && !slices.Contains(neutral, w[0]):
			d.add(&d.other, program(w))
		}
		return
	}
}

// program is how a program that is not known is named: with its file if it is an interpreter.
func program(w []string) string {
	name := path.Base(w[0])
	if len(w) > 1 && (isPython(name) || slices.Contains([]string{"sh", "bash", "node", "ruby", "perl"}, name)) && !strings.HasPrefix(w[1], "-") {
		name += " " + w[1]
	}
	return name
}

// manager adds what a manager of packages runs, unless that is the command that follows.
func (d *does) manager(name string, args []string, script func(string) bool) bool {
	all := slices.ContainsFunc(args, func(a string) bool {
		return slices.Contains([]string{"--workspaces", "-ws", "-r", "--recursive", "workspaces", "-w", "workspace", "--filter", "-F"}, a) || strings.HasPrefix(a, "--workspace") || strings.HasPrefix(a, "--filter=")
	})
	plain := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return strings.HasPrefix(a, "-") })
	if all {
		if slices.ContainsFunc(plain, func(a string) bool { return a == "test" || strings.HasPrefix(a, "test:") }) {
			d.add(&d.tests, "the tests of the workspaces")
			return true
		}
		return false
	}
	if len(plain) == 0 {
		return false
	}
	switch {
	case name == "bun" && plain[0] == "test":
		return false // its own runner
	case plain[0] == "test" || plain[0] == "t":
		return script("test")
	case plain[0] == "run" || plain[0] == "run-script":
		return len(plain) > 1 && script(plain[1])
	}
	return name != "npm" && script(plain[0])
}

// make adds what targets of a Makefile run.
func (d *does) make(args []string, target func(string) bool) {
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-C" || a == "-f":
			// Another Makefile: its target for tests is taken at its word.
			if slices.Contains(args, "test") || slices.Contains(args, "check") {
				d.add(&d.other, "make "+strings.Join(args, " "))
			}
			return
		case strings.HasPrefix(a, "-"), strings.Contains(a, "="):
		case !target(a):
			d.add(&d.other, "make "+a)
		}
	}
}

func isPython(name string) bool { return pythonName.MatchString(name) }

var (
	pythonName = lazyregexp.New(`^(python[\d.]*|pypy3?|\$[({]\w*PY\w*[)}]|\$\w*PY\w*)$`)
	number     = lazyregexp.New(`^\d+[smh]?$`)
)

func isNumber(s string) bool { return number.MatchString(s) }
