package gate

import (
	"path"
	"slices"
	"strings"
)

// locks are the files that name the packages to install exactly, each with the manifests that they are made from. One without a
// manifest is written by hand.
var locks = map[string][]string{
	"package-lock.json": {"package.json"}, "npm-shrinkwrap.json": {"package.json"}, "yarn.lock": {"package.json"}, "bun.lock": {"package.json"},
	"bun.lockb": {"package.json"}, "pnpm-lock.yaml": {"package.json", "pnpm-workspace.yaml"}, "deno.lock": {"deno.json", "deno.jsonc", "package.json"},
	"poetry.lock": {"pyproject.toml"}, "uv.lock": {"pyproject.toml"}, "pdm.lock": {"pyproject.toml"}, "Pipfile.lock": {"Pipfile"},
	"Cargo.lock": {"Cargo.toml"}, "go.sum": {"go.mod"}, "go.work.sum": {"go.work", "go.mod"}, "Gemfile.lock": {"Gemfile", "gems.rb", "*.gemspec"},
	"composer.lock": {"composer.json"}, "mix.lock": {"mix.exs"}, "pubspec.lock": {"pubspec.yaml"}, "gradle.lockfile": {"build.gradle", "build.gradle.kts"},
	"packages.lock.json": {"*.csproj", "*.fsproj", "Directory.Packages.props"}, "Package.resolved": {"Package.swift"}, "requirements.txt": nil,
}

// data are directories in which a lock file is that of no project: nothing is installed for it.
var data = []string{"testdata", "fixtures", "__fixtures__"}

// IsLock reports whether a file says exactly which packages are installed.
func IsLock(p string) bool {
	_, ok := locks[path.Base(p)]
	return ok && !within(p, data) && !within(p, copied)
}

// LocksRuler reports whether a file is a lock file whose manifest has a say in how tests are run.
func LocksRuler(p string) bool { return IsLock(p) && slices.ContainsFunc(locks[path.Base(p)], Rules) }

// IsManifest reports whether a lock file is made from a file.
func IsManifest(p string) bool {
	for _, manifests := range locks {
		if matches(path.Base(p), manifests) {
			return true
		}
	}
	return false
}

// LoneLocks returns the lock files among changed files that nothing of the project explains: none of the manifests beside or below
// them, where a project with several packages has some, has changed.
func LoneLocks(changed []string) (out []string) {
	for _, p := range changed {
		manifests := locks[path.Base(p)]
		dir := strings.TrimSuffix(p, path.Base(p))
		if IsLock(p) && len(manifests) > 0 && !slices.ContainsFunc(changed, func(m string) bool {
			return strings.HasPrefix(m, dir) && matches(path.Base(m), manifests) && !within(m, data) && !within(m, copied)
		}) {
			out = append(out, p)
		}
	}
	return out
}

func matches(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, _ := path.Match(pattern, name)
		return ok
	})
}

// within reports whether one of the directories above a file has one of some names.
func within(p string, names []string) bool {
	dirs := strings.Split(p, "/")
	return slices.ContainsFunc(dirs[:len(dirs)-1], func(d string) bool { return slices.Contains(names, d) })
}

// copied are directories with the code of others: one called vendor only where packages are installed.
var copied = []string{"node_modules", "third_party", "bower_components", "_vendor", "vendored"}

// compiled are endings of files that are loaded or run, and that have no text to read.
var compiled = []string{".pyc", ".pyo", ".pyd", ".class", ".jar", ".war", ".so", ".dll", ".dylib", ".node", ".wasm", ".o", ".a", ".lib", ".exe", ".beam"}

// IsByteCode reports whether Python made a file from a source.
func IsByteCode(p string) bool {
	ext := strings.ToLower(path.Ext(p))
	return ext == ".pyc" || ext == ".pyo"
}

// Unread returns what a file is that a review passes over although it can decide what the program or its tests do; "" for other files.
// there reports whether the tree has a file.
func Unread(p string, there func(string) bool) string {
	base := strings.ToLower(path.Base(p))
	switch {
	case CopiedBelow(p, there) != "":
		return "code of others"
	case IsTest(p):
		return "" // the gate runs without it
	case slices.Contains(compiled, path.Ext(base)) || strings.Contains(base, ".so."):
		return "compiled code"
	case base == "sitecustomize.py" || base == "usercustomize.py" || strings.HasSuffix(base, ".pth"):
		return "a file that Python runs at its start"
	case base == "conftest.py":
		return "a file that pytest runs at its start, outside of the tests"
	case IsLock(p):
		return "other packages"
	}
	return ""
}

// CopiedBelow returns the directory with code of others that a file is in; "" if it is in none.
func CopiedBelow(p string, there func(string) bool) string {
	for i, c := range p {
		if c != '/' {
			continue
		}
		dir := p[:i]
		above, name := path.Split(dir)
		switch {
		case slices.Contains(copied, name):
			return dir
		case name == "vendor" && slices.ContainsFunc([]string{"go.mod", "composer.json", "Gemfile", "Cargo.toml", "package.json"}, func(m string) bool { return there(above + m) }):
			return dir
		}
	}
	return ""
}
