package gate

import (
	"path"
	"slices"
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

// testDirs hold tests and what they read.
var testDirs = []string{"test", "tests", "__tests__", "__mocks__", "__snapshots__", "testdata", "spec", "specs", "e2e", "fixtures",
	"__fixtures__", "golden", "goldens", "test_data", "test-data", "test-utils", "test_utils", "testutil", "testutils", "testhelper", "testhelpers",
	"test_helpers", "test-helpers", "test_support", "test-support", "testlib", "cypress"}

// testNames are single files that are tests, in lower case.
var testNames = []*lazyregexp.Regexp{
	lazyregexp.New(`^test_.*\.py$`), lazyregexp.New(`_test\.py$`), lazyregexp.New(`^(tests?|check)\.(py|sh|bash|rb|pl|[cm]?[jt]s|php|lua)$`),
	lazyregexp.New(`_test\.go$`),
	lazyregexp.New(`[._-](test|spec)\.[cm]?[jt]sx?$`), lazyregexp.New(`^test[.-].*\.?[cm]?[jt]sx?$`),
	lazyregexp.New(`(test|tests|spec)\.(java|kt|scala|cs|swift|php)$`),
	lazyregexp.New(`_(test|spec)\.(rb|exs?|rs|c|cc|cpp|dart)$`), lazyregexp.New(`\.(bats|t)$`),
	// What tests compare with, and what they are written with.
	lazyregexp.New(`^(expected|expectations?|golden)([._-][\w-]+)*\.(json|ya?ml|csv|toml|txt|xml|html|out)$`),
	lazyregexp.New(`\.(snap|golden|approved)(\.\w+)?$`), lazyregexp.New(`^(asserts?|assertions?|tests?[_-]?(helpers?|utils?|support|lib|data|base)|(spec|test)_?helper)\.\w+$`),
}

// helpers are names at the top of a repository that tests import. Below it they are names of programs too.
var helpers = lazyregexp.New(`^(checks|expected|expectations|verify|cases)\.(py|[cm]?[jt]s|rb|sh|json|ya?ml|csv|toml)$`)

// rulers decide what a test run does, in lower case. Some are ordinary names of
// their language that its interpreter loads before anything else.
var rulers = []string{
	"conftest.py", "pytest.ini", "tox.ini", "noxfile.py", "setup.cfg", "pyproject.toml", "sitecustomize.py", "usercustomize.py", ".coveragerc",
	"package.json", ".npmrc", ".babelrc", "tsconfig.json", "makefile", "gnumakefile", "go.work", "go.mod", "cargo.toml", "pom.xml",
	"build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "gradle.properties", "gradlew", "phpunit.xml", ".rspec", "rakefile",
}

// ruling are beginnings of names that rule too.
var ruling = []string{"jest.config.", "vitest.config.", "vite.config.", "babel.config.", "karma.conf.", "playwright.config.", ".mocharc", ".tap", "ava.config."}

// IsTest reports whether a file is a test, or something that tests read. It errs on
// the side of saying yes: what it names is looked at twice, and nothing more.
func IsTest(p string) bool {
	p = strings.ToLower(p)
	dir, base := path.Split(p)
	for _, d := range strings.Split(strings.TrimSuffix(dir, "/"), "/") {
		if slices.Contains(testDirs, d) {
			return true
		}
	}
	// A link with the name of such a directory replaces all in it.
	if slices.Contains(testDirs, base) {
		return true
	}
	return dir == "" && helpers.MatchString(base) || slices.ContainsFunc(testNames, func(re *lazyregexp.Regexp) bool { return re.MatchString(base) })
}

// Rules reports whether a file has a say in how tests are run.
func Rules(p string) bool {
	base := strings.ToLower(path.Base(p))
	return slices.Contains(rulers, base) || strings.HasSuffix(base, ".pth") || strings.HasSuffix(base, ".mk") ||
		slices.ContainsFunc(ruling, func(r string) bool { return strings.HasPrefix(base, r) })
}

// Shadows reports whether a new file could be loaded in the place of a module of the
// standard library that test runners import: Python looks beside the program first.
func Shadows(p string) bool {
	first, _, _ := strings.Cut(strings.ToLower(p), "/")
	return slices.Contains(shadowed, strings.TrimSuffix(first, ".py")) && (first == strings.ToLower(p) || strings.HasSuffix(p, ".py"))
}

var shadowed = []string{"unittest", "pytest", "_pytest", "pluggy", "os", "sys", "site", "io", "traceback", "importlib", "runpy", "json", "re",
	"types", "abc", "functools", "collections", "warnings", "argparse", "signal", "time", "fnmatch", "difflib", "pprint", "contextlib", "logging"}

// Watched reports whether a change of this file puts the gate's word in doubt: it is
// a test, rules over tests, or is executed by the gate's own command. With it as it was
// before, or without it when it is new, the gate must pass as well.
//
// A glob of the command names the files that match it, if the command could execute them. A directory in the command, where the tests run
// or are looked for, makes no file below it a test. There a file is one if tests that ran before the work are in it, which reported says.
// It may be nil.
func Watched(command, p string, reported func(p string) bool) bool {
	if IsTest(p) || Rules(p) || Shadows(p) {
		return true
	}
	file, below := names(command, p)
	return file || globbed(globsOf(command), p) || below && reported != nil && reported(p)
}

// directed are the options whose value is a directory in which a program works.
var directed = []string{"-C", "--prefix", "--directory", "--cwd", "--dir", "--rootdir", "--workspace", "-w", "-s", "-t", "--root", "--project"}

// names reports whether a shell command has a file as one of its words, or a directory that holds it.
func names(command, p string) (file, below bool) {
	const most = 1 << 10 // words that are looked at
	n := 0
	for _, c := range commandsOf(command) {
		words, dirs := operands(c)
		dirs = append(dirs, "", c.dir)
		runs := path.Base(c.program())
		for _, d := range dirs {
			below = below || holds(d, p)
		}
		for _, w := range words {
			if n++; n > most {
				return file, below
			}
			for _, d := range dirs {
				at := path.Join(d, w)
				switch {
				case at == p, strings.HasPrefix(at, p+"/"): // or something in its place, if that is a directory
					return true, below
				case !holds(at, p):
				case runs == "run-parts",
					runs == "node" && path.Dir(p) == at && strings.HasPrefix(path.Base(p), "index."),
					isPython(runs) && path.Dir(p) == at && path.Base(p) == "__main__.py":
					return true, below // it executes what is there
				default:
					below = true
				}
			}
		}
	}
	return file, below
}

// maxDirs bounds the directories of one command.
const maxDirs = 20

// operands are the words of a command that may name files, and the directories in which it works.
func operands(c simpleCommand) (words, dirs []string) {
	for i, w := range c.words {
		option, _, set := strings.Cut(w, "=")
		for _, part := range strings.FieldsFunc(w, func(r rune) bool { return strings.ContainsRune(" =$()`'\"{}", r) }) {
			part = path.Clean(strings.TrimPrefix(part, "/workspace/"))
			if part == "." || part == ".." || strings.HasPrefix(part, "../") {
				continue
			}
			words = append(words, part)
			if len(dirs) < maxDirs && (set && part != option && slices.Contains(directed, option) || i > 0 && slices.Contains(directed, c.words[i-1])) {
				dirs = append(dirs, part)
			}
		}
	}
	return words, dirs
}

// holds reports whether a directory holds a file; the top directory, which holds all, says nothing.
func holds(dir, p string) bool { return dir != "" && dir != "." && strings.HasPrefix(p, dir+"/") }

// Reported reports whether tests that ran before the work are in a file, which is relative to the directory of the check.
func (c *Check) Reported(p string) bool {
	stem, python := strings.CutSuffix(p, ".py")
	module := strings.ReplaceAll(stem, "/", ".")
	ends := func(whole, end, sep string) bool { return whole == end || strings.HasSuffix(whole, sep+end) }
	for name := range c.Tests.Tests {
		file, test, ok := strings.Cut(name, " > ") // node
		if !ok {
			file, test, ok = strings.Cut(name, "::") // pytest
		}
		switch {
		case ok && python && slices.Contains(strings.Split(test, "."), path.Base(stem)):
			// A doctest is in the file that it tests.
		case ok && ends(p, file, "/"):
			return true
		case !ok && python: // unittest: module, class and method
			parts := strings.Split(name, ".")
			if n := len(parts) - 2; n > 0 && ends(module, strings.Join(parts[:n], "."), ".") {
				return true
			}
		}
	}
	return false
}
