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
	lazyregexp.New(`_(test|spec)\.(rb|exs?|rs|c|cc|cpp|dart)$`),
	// What tests compare with, and what they are written with.
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
// a test, rules over tests, or is named by the gate's own command. With it as it was
// before, or without it when it is new, the gate must pass as well.
func Watched(command, p string) bool { return IsTest(p) || Rules(p) || Shadows(p) || names(command, p) }

// names reports whether a shell command has a file, or a directory that holds it, as
// one of its words.
func names(command, p string) bool {
	words := strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(" \t\n;&|()<>'\"`$={}", r) })
	return slices.ContainsFunc(words, func(w string) bool {
		w = path.Clean(strings.TrimPrefix(w, "/workspace/"))
		return w == p || strings.HasPrefix(w, p+"/") || w != "." && strings.HasPrefix(p, w+"/") && strings.Contains(w, "/")
	})
}
