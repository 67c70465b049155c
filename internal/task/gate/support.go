package gate

import (
	"path"
	"slices"
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

// Bounds of what Support reads.
const (
	maxSupport      = 300 // files
	maxSupportCalls = 200 // scripts and targets
)

var (
	// support is what only files have that tests are written with: a test framework, or assertions of their own.
	support = lazyregexp.New(`(?m)^\s*(?:import|from)\s+(?:unittest|pytest|hypothesis)\b|(?:from|require\()\s*['"](?:node:test|vitest|@jest/globals|chai|mocha|ava|tap)['"]` +
		`|^(?:import\s+|\s+)"testing"$|^\s*(?:async\s+)?(?:def|func|function|export\s+(?:async\s+)?function)\s+(?:assert|expect)\w*\s*\(|^(?:module\.)?exports\.(?:assert|expect)\w*\s*=`)
	source = lazyregexp.New(`\.(py|[cm]?[jt]sx?|go)$`)
	// running are names of programs that run tests, and not what they test.
	running  = lazyregexp.New(`(?i)(test|check|spec|verify|run|ci)`)
	include  = lazyregexp.New(`(?m)^[-s]?include[ \t]+(.+)$`)
	scripted = []string{"scripts", "script", "tools", "hack", "ci", ".ci", "dev"}
)

// Support names the files of a commit that its tests are made of, beside those whose names say so: helpers with assertions or a test
// framework, in directories with tests, what the Makefile includes, and what scripts and targets that the command calls run tests by: programs,
// and files that a glob names. It reads what the agent has not written.
func Support(t Tree, command string) map[string]bool {
	out := map[string]bool{}
	called(t, command, out)
	beside := map[string]bool{"": true}
	for _, p := range t.Paths {
		if IsTest(p) {
			beside[strings.TrimSuffix(p, path.Base(p))] = true
		}
	}
	read := 0
	for _, p := range t.Paths {
		if read == maxSupport {
			break
		}
		if source.MatchString(p) && !IsTest(p) && beside[strings.TrimSuffix(p, path.Base(p))] {
			if read++; support.MatchString(string(t.Read(p))) {
				out[p] = true
			}
		}
	}
	return out
}

// Colours reports whether tests of a commit are about the variables that turn colours on and off. They set those that they need, and none
// may be set before.
func Colours(t Tree) bool {
	read := 0
	for _, p := range t.Paths {
		if read == maxSupport {
			break
		}
		if IsTest(p) && source.MatchString(p) {
			if read++; colours.MatchString(string(t.Read(p))) {
				return true
			}
		}
	}
	return false
}

var colours = lazyregexp.New(`\b(?:NO_COLOR|FORCE_COLOR|CLICOLOR)`)

// called adds what a command calls by scripts of package.json and targets of the Makefile.
func called(t Tree, command string, out map[string]bool) {
	npm := scripts(t)
	_, text := makeText(t)
	rules, vars := parseMakefile(text)
	for _, m := range include.FindAllStringSubmatch(string(text), -1) {
		for _, p := range strings.Fields(m[1]) {
			if p = path.Clean(p); t.has(p) {
				out[p] = true
				_, more := parseMakefile(t.Read(p))
				for name, value := range more {
					if _, set := vars[name]; !set {
						vars[name] = value
					}
				}
			}
		}
	}
	queue, seen := []string{command}, map[string]bool{}
	add := func(kind, name string) {
		if key := kind + name; !seen[key] && len(seen) < maxSupportCalls {
			seen[key] = true
			if kind == "npm" {
				queue = append(queue, npm["pre"+name], npm[name], npm["post"+name])
				return
			}
			queue = append(queue, rules[name].recipe...)
			queue = append(queue, "make "+strings.Join(rules[name].needs, " "))
		}
	}
	for first := true; len(queue) > 0; first = false {
		line := makeUse.ReplaceFunc(queue[0], func(groups []string) string { return vars[groups[1]] })
		queue = queue[1:]
		if globs := globsOf(line); !first && len(globs) > 0 {
			for _, p := range t.Paths {
				if globbed(globs, p) {
					out[p] = true
				}
			}
		}
		for _, c := range commandsOf(line) {
			switch at := path.Base(c.program()); {
			case at == "make" || at == "gmake":
				targets := c.words[1:]
				if first && len(targets) == 0 {
					targets = []string{"all", "test", "check"}
				}
				for _, name := range targets {
					add("make", name)
				}
			case slices.Contains([]string{"npm", "yarn", "pnpm", "bun"}, at):
				for _, name := range c.words[1:] {
					if name == "t" {
						name = "test"
					}
					add("npm", name)
				}
			case !first:
				for _, w := range c.words[:min(len(c.words), 2)] { // the program, or what an interpreter runs
					p := path.Join(c.dir, w)
					if t.has(p) && (running.MatchString(path.Base(p)) || within(p, scripted)) {
						out[p] = true
					}
				}
			}
		}
	}
}
