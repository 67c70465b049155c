package report

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"hortus.dev/internal/platform/lazyregexp"
)

// Failing is the exit code by which the runner says that it ran all tests and that some failed; 0 if it has none that is known.
func (p Plan) Failing() int {
	switch {
	case p.kind == plain, p.kind == wrapped, p.kind == golang && strings.Contains(p.after, "-failfast"):
		return 0
	case p.kind == rust:
		return 101
	}
	return 1
}

// Again gives a plan that runs tests alone that failed; false if the runner cannot, or if one of the names cannot be given to it. r is
// the report that names them.
func (p Plan) Again(r Report, names []string) (Plan, bool) {
	if p.Failing() == 0 || len(names) == 0 {
		return p, false
	}
	p.only = slices.Clone(names)
	switch p.kind {
	case golang:
		return p.againGo(r)
	case rust:
		return p.againRust()
	case node:
		return p.againNode()
	}
	return p, true // the runner of ours has a list
}

var (
	// simpleFlag is a flag of go test that has no value behind it.
	simpleFlag = lazyregexp.New(`^-{1,2}(?:race|v|short|cover|trimpath|msan|asan|shuffle=on|[a-z]+=[\w./:,=@%+-]*)$`)
	goName     = lazyregexp.New(`^(?:Test|Example|Fuzz)[\pL\pN_]*$`)
	goPackage  = lazyregexp.New(`^[\pL\pN_][\pL\pN_./~+@-]*$`)
)

// againGo runs the top tests of the names, in their packages if the arguments are plain enough to replace them.
func (p Plan) againGo(r Report) (Plan, bool) {
	var tests, packages []string
	for of, failed := range r.packages() {
		for _, name := range failed {
			if !slices.Contains(p.only, name) {
				continue
			}
			top, _, _ := strings.Cut(strings.TrimPrefix(name, of+"."), "/")
			if !goName.MatchString(top) || !goPackage.MatchString(of) {
				return p, false
			}
			tests, packages = append(tests, top), append(packages, of)
		}
	}
	if len(tests) < len(p.only) {
		return p, false
	}
	slices.Sort(tests)
	slices.Sort(packages)
	tests, packages = slices.Compact(tests), slices.Compact(packages)
	args := strings.Fields(p.after)
	flags := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return !strings.HasPrefix(a, "-") })
	if !slices.ContainsFunc(flags, func(a string) bool { return !simpleFlag.MatchString(a) }) {
		p.after = " " + strings.Join(append(flags, quoted(packages)...), " ")
	}
	// A result from the cache is no run. What the command itself says comes later, and holds.
	p.after = " -count=1 -run " + quote("^("+strings.Join(tests, "|")+")$") + p.after
	return p, true
}

// againRust runs the names in all test programs: those of others are not looked at.
func (p Plan) againRust() (Plan, bool) {
	var tests []string
	for _, name := range p.only {
		_, test, ok := strings.Cut(name, " ")
		if !ok || !sayable(test) || strings.HasPrefix(test, "-") {
			return p, false
		}
		tests = append(tests, test)
	}
	if !strings.Contains(p.after+" ", " -- ") {
		p.after += " --"
	}
	p.after += " --exact " + strings.Join(quoted(tests), " ")
	return p, true
}

// againNode runs what has a part of the names: a test is matched by its own name in some versions, and with those of its suites in others.
func (p Plan) againNode() (Plan, bool) {
	var parts []string
	for _, name := range p.only {
		levels := strings.Split(name, " > ")
		if len(levels) < 2 {
			return p, false
		}
		for _, part := range levels[1:] {
			if part = strings.TrimSpace(part); part == "" || !sayable(part) {
				return p, false
			}
			parts = append(parts, "--test-name-pattern="+regexp.QuoteMeta(part))
		}
	}
	slices.Sort(parts)
	p.after = " " + strings.Join(quoted(slices.Compact(parts)), " ") + p.after
	return p, true
}

// sayable reports whether a name can be an argument, and is whole.
func sayable(name string) bool {
	return len(name) < maxName/2 && !strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar })
}

// quote makes a word of a shell of a text.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func quoted(all []string) (out []string) {
	for _, text := range all {
		out = append(out, quote(text))
	}
	return out
}

// packages are the Go packages that failed with tests of theirs, and those tests.
func (r Report) packages() map[string][]string {
	out := map[string][]string{}
	if r.Runner != goRunner {
		return out
	}
	for _, name := range r.Names(Failed) {
		for i := strings.IndexByte(name, '.'); i >= 0; i = next(name, i) {
			top, _, _ := strings.Cut(name[i+1:], "/")
			if goName.MatchString(top) && r.Tests[name[:i]] == Broken {
				out[name[:i]] = append(out[name[:i]], name)
				break
			}
		}
	}
	return out
}

// Packages are the packages that failed with one of these tests, in reports that have packages.
func (r Report) Packages(tests []string) (out []string) {
	for of, failed := range r.packages() {
		if slices.ContainsFunc(failed, func(t string) bool { return slices.Contains(tests, t) }) {
			out = append(out, of)
		}
	}
	return out
}

// next is the place of the next dot; -1 if there is none.
func next(name string, i int) int {
	if n := strings.IndexByte(name[i+1:], '.'); n >= 0 {
		return i + 1 + n
	}
	return -1
}
