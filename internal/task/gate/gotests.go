package gate

import (
	"slices"
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

// maxGoTests bounds the kinds of builds that the tests of one gate need.
const maxGoTests = 3

// GoTests gives the runs of go test that a command makes, as far as Detect sees through it, with nothing but what decides how packages are
// compiled: "CGO_ENABLED=0 go test -tags=a". It gives nothing else of the repository: each word matches a strict pattern. It is empty if
// no run of go test is seen.
func GoTests(t Tree, command string) (out []string) {
	var d does
	all := scripts(t)
	_, text := makeText(t)
	rules, vars := parseMakefile(text)
	for _, c := range commandsOf(command) {
		d.classify(c, func(name string) bool {
			d.join(ofScript(all, name))
			return true
		}, func(name string) bool {
			d.join(ofTarget(rules, vars, all, name))
			return true
		})
	}
	for _, args := range d.goTests {
		if run := goBuild(args); len(out) < maxGoTests && !slices.Contains(out, run) {
			out = append(out, run)
		}
	}
	return out
}

var (
	goVariable = lazyregexp.New(`^CGO_ENABLED=[01]$`)
	// goFlag decides what is compiled, goValue also with a value in the next word, and goCover is -cover in other words.
	goFlag  = lazyregexp.New(`^-(?:race|msan|asan|cover|trimpath|(?:tags|covermode|coverpkg|gcflags)=[\w.,/=-]+)$`)
	goValue = lazyregexp.New(`^-(?:tags|covermode|coverpkg|gcflags)$`)
	goCover = lazyregexp.New(`^-coverprofile(?:=|$)`)
)

// goBuild is a run of go test without what does not change a build. args are its variables and its words.
func goBuild(args []string) string {
	var before, flags []string
	for i, a := range args {
		if goVariable.MatchString(a) {
			before = append(before, a)
			continue
		}
		if strings.HasPrefix(a, "--") {
			a = a[1:]
		}
		if a == "-args" {
			break
		}
		if goValue.MatchString(a) && i+1 < len(args) {
			a += "=" + args[i+1]
		}
		if goCover.MatchString(a) {
			a = "-cover"
		}
		if goFlag.MatchString(a) && !slices.Contains(flags, a) {
			flags = append(flags, a)
		}
	}
	slices.Sort(flags)
	return strings.Join(slices.Concat(before, []string{"go", "test"}, flags), " ")
}
