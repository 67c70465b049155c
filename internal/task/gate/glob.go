package gate

import (
	"path"
	"slices"
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

var (
	// readers look at files, compile, pack or count them, beside linters and what is neutral: no file that they get is a test.
	readers = []string{"case", "ls", "find", "fd", "tar", "zip", "gzip", "wc", "head", "tail", "sort", "uniq", "chmod", "chown", "du", "stat", "file", "javac", "kotlinc", "rustc", "tsc", "protoc"}
	// inspects are words with which an interpreter reads files and executes no tests of them. A doctest is in the file that it tests.
	inspects = []string{"doctest", "py_compile", "compileall", "json.tool", "--check", "-n"}
	// listers print names, and takers execute something for each name that is printed.
	listers = []string{"ls", "find", "fd", "echo", "printf", "git"}
	takers  = []string{"xargs", "parallel", "read", "for"}
	shells  = []string{"sh", "bash", "dash", "zsh", "ksh", "ash", "eval"}
	// leading is a variable in which the path of a glob begins.
	leading = lazyregexp.New(`^.*\$\$?(?:\w+|\{\w+\}|\(\w+\))/+`)
	literal = lazyregexp.New(`[A-Za-z0-9]`)
)

// fileGlob is a word of a command that stands for files: its components, of which "**" is any number.
type fileGlob []string

// globsOf are the globs of a shell command that name what it executes, or gives to what it executes: "for t in *_check.sh; do sh $t; done"
// tests with each file that matches. What only linters, compilers and other readers get is the program that is tested, and not its tests.
func globsOf(command string) []fileGlob { return appendGlobs(nil, command, 0) }

// maxGlobs bounds the globs of one command, and maxNested how deep a shell is called by a shell.
const (
	maxGlobs  = 100
	maxNested = 3
)

func appendGlobs(out []fileGlob, command string, depth int) []fileGlob {
	commands := commandsOf(command)
	takes := slices.ContainsFunc(commands, func(c simpleCommand) bool { return slices.Contains(takers, path.Base(c.program())) })
	for i, c := range commands {
		name := path.Base(c.program())
		nested := slices.Contains(shells, name) && depth < maxNested
		executed := c.executes()
		switch {
		case name == "for" && len(c.words) > 2:
			executed = loops(commands[i+1:], c.words[1])
		case slices.Contains(listers, name):
			executed = takes || slices.Contains(c.words, "-exec") || slices.Contains(c.words, "-execdir")
		}
		for _, w := range c.words {
			switch {
			case nested && strings.ContainsAny(w, " \t\n;"):
				out = appendGlobs(out, w, depth+1)
			case executed && strings.ContainsAny(w, "*?[") && len(out) < maxGlobs:
				out = append(out, c.glob(w))
			}
		}
	}
	return out
}

// executes reports whether a command could execute the files that it gets.
func (c simpleCommand) executes() bool {
	name := path.Base(c.program())
	if name == "." || name == "source" {
		return true
	}
	if slices.Contains(readers, name) || slices.ContainsFunc(c.words, func(w string) bool { return slices.Contains(inspects, w) }) {
		return false
	}
	var d does
	d.classify(c, func(string) bool { return false }, func(string) bool { return false })
	return len(d.tests)+len(d.other) > 0
}

// loops reports whether one of the commands after a "for" could execute the files that its variable stands for.
func loops(body []simpleCommand, variable string) bool {
	return slices.ContainsFunc(body, func(c simpleCommand) bool {
		uses := slices.ContainsFunc(c.words, func(w string) bool {
			return strings.Contains(w, "$"+variable) || strings.Contains(w, "${"+variable)
		})
		nested := slices.Contains(shells, path.Base(c.program()))
		return uses && (nested || c.executes())
	})
}

// glob is a word of a command as a glob of paths. A program may look for a name in each directory, unless a shell expands it first, which
// is not known of a word without its quotes.
func (c simpleCommand) glob(word string) fileGlob {
	_, value, set := strings.Cut(word, "=")
	if !set || !strings.ContainsAny(value, "*?[") {
		value = word
	}
	tail := leading.ReplaceAllString(value, "")
	tail = strings.ReplaceAll(path.Clean(strings.TrimPrefix(tail, "/workspace/")), "[!", "[^")
	name := path.Base(c.program())
	searches := name == "find" || name == "fd" || name == "git" || slices.ContainsFunc(c.words, func(w string) bool { return strings.HasPrefix(w, "$(") })
	var d does
	d.classify(c, func(string) bool { return false }, func(string) bool { return false })
	searches = (searches || len(d.tests) > 0) && !strings.Contains(tail, "/") && literal.MatchString(tail)
	switch {
	case tail != path.Clean(value) && strings.Contains(value, "$"), searches:
		return append(fileGlob{"**"}, strings.Split(tail, "/")...)
	}
	return strings.Split(path.Join(c.dir, tail), "/")
}

// match reports whether a path matches the glob.
func (g fileGlob) match(p string) bool { return matchParts(g, strings.Split(p, "/")) }

func matchParts(glob, parts []string) bool {
	// at[i] says that the first i components are matched by what was looked at.
	at := make([]bool, len(parts)+1)
	at[0] = true
	for _, part := range glob {
		next := make([]bool, len(parts)+1)
		for i := range next {
			switch {
			case part == "**":
				next[i] = at[i] || i > 0 && next[i-1]
			case i > 0 && at[i-1]:
				ok, err := path.Match(part, parts[i-1])
				next[i] = ok && err == nil
			}
		}
		at = next
	}
	return at[len(parts)]
}

// globbed reports whether one of some globs names a file.
func globbed(globs []fileGlob, p string) bool {
	return slices.ContainsFunc(globs, func(g fileGlob) bool { return g.match(p) })
}
