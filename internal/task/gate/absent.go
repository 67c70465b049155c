package gate

import (
	"path"
	"slices"
	"strings"
	"unicode"

	"hortus.dev/api"
	"hortus.dev/internal/platform/lazyregexp"
)

// toolchains are programs that no agent writes, beside test runners and linters.
var toolchains = []string{"cmake", "make", "ninja", "meson", "go", "cargo", "rustc", "node", "npm", "npx", "pnpm", "yarn", "bun", "deno", "mvn", "gradle", "java", "javac", "python", "python3", "ruby",
	"bundle", "rake", "php", "composer", "dotnet", "swift", "mix", "elixir", "dart", "flutter", "uv", "poetry", "pipenv", "pdm", "hatch", "sbt", "lein", "gcc", "cc", "g++", "c++", "clang", "bazel"}

var (
	// notFound is how a shell, or make, says that there is no program of a name, which is one of the groups.
	notFound = lazyregexp.New(`(?m)^(?:\S+: )?(?:line \d+: |\d+: )?([\w./+-]+): (?:command )?not found\s*$|^(?:make(?:\[\d+\])?|env|nice|timeout): ['‘"]?([\w./+-]+)['’"]?: No such file or directory\s*$`)
	// noModule is how Python says that it has no module to run.
	noModule = lazyregexp.New(`(?m)^\S*(?:python|pypy)[\d.]*: No module named '?(\w+)[\w.]*'?\s*$|^ModuleNotFoundError: No module named '(\w+)[\w.]*'\s*$`)
	noJava   = lazyregexp.New(`(?m)^ERROR: JAVA_HOME is not set and no 'java' command could be found`)
)

// Absent names the program without which a gate could not start on the commit before the work: a program of its command, a test runner
// that this calls, or a module of Python that is one. It is empty if the gate started, and if the agent can be the one to provide the
// program, because it is or becomes a file of the repository, or because the request is to add it. What is doubtful is for the agent.
func Absent(command string, g api.Gate, request string, paths []string) string {
	if g.Passed || g.Exit.Cause != "" || g.Exit.Signal != "" || g.Exit.Code == 0 || g.Tests != nil {
		return ""
	}
	commands := commandsOf(command)
	calls := func(name string) bool {
		return slices.ContainsFunc(commands, func(c simpleCommand) bool { return slices.Contains(c.words, name) })
	}
	known := func(name string) bool {
		return slices.Contains(testers, name) || slices.Contains(linters, name) || slices.Contains(toolchains, name) || testVerbs[name] != nil
	}
	for _, m := range noModule.FindAllStringSubmatch(g.Output, -1) {
		// Tests of another runner may import this one, which is no reason to stop.
		if name := m[1] + m[2]; slices.Contains(testers, name) && (m[1] != "" || calls(name)) && !adds(request, name) {
			return name
		}
	}
	if noJava.MatchString(g.Output) {
		return "java"
	}
	shell := g.Exit.Code == 126 || g.Exit.Code == 127
	for _, m := range notFound.FindAllStringSubmatch(g.Output, -1) {
		name := m[1] + m[2]
		installed := strings.Contains(name, "node_modules/.bin/") || strings.Contains(name, "venv/bin/")
		if installed {
			name = path.Base(name)
		}
		switch {
		case strings.Contains(name, "/"):
			// A file of the repository, which the agent can write.
		case known(name) || installed:
			// make ends with a code of its own.
			if (shell || strings.Contains(g.Output, "Error 127")) && !adds(request, name) {
				return name
			}
		case shell && calls(name) && !mentions(request, name) && !slices.ContainsFunc(paths, func(p string) bool { return path.Base(p) == name }):
			return name
		}
	}
	return ""
}

// Programs returns the programs of a command that no agent writes, sorted.
func Programs(command string) (out []string) {
	for _, c := range commandsOf(command) {
		if slices.Contains(toolchains, c.program()) {
			out = append(out, c.program())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Unloaded reports whether a gate ended by itself before any test passed, and the request names no package of that name.
func Unloaded(g api.Gate, request, name string) bool {
	return !g.Passed && g.Exit.Cause == "" && g.Exit.Signal == "" && g.Exit.Code != 0 && (g.Tests == nil || g.Tests.Passed == 0) && !mentions(request, name)
}

// mentions reports whether a text has a name as a word.
func mentions(text, name string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-+", r)
	}), func(w string) bool { return w == strings.ToLower(name) })
}

// adding are the verbs of a request that is about what a repository needs.
var adding = lazyregexp.New(`(?i)\b(?:add|adopt|install|set ?up|migrate|move|switch|introduce|convert|port|replace|configure|depend)`)

// adds reports whether a request may be to add a known program.
func adds(request, name string) bool { return mentions(request, name) && adding.MatchString(request) }
