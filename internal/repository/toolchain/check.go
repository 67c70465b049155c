package toolchain

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/lazyregexp"
)

// programs are the programs that stand for a toolchain in a template's report.
func programs() map[string]string {
	return map[string]string{"rust": "cargo", "node": "node", "python": "python3", "go": "go", "java": "java", "maven": "mvn", "gradle": "gradle", "ruby": "ruby",
		"php": "php", "cmake": "cmake", "ninja": "ninja", "npm": "npm", "pnpm": "pnpm", "yarn": "yarn", "uv": "uv", "poetry": "poetry", "perl": "perl"}
}

// Of returns the name of the toolchain that has a program, as the setting daemon.toolchains has it; "" if it is not known.
func Of(program string) string {
	switch program {
	case "cargo", "rustc":
		return "rust"
	case "npm", "npx":
		return "node"
	case "pip", "pip3", "python":
		return "python"
	case "javac":
		return "java"
	case "bundle", "rake":
		return "ruby"
	}
	for name, p := range programs() {
		if p == program {
			return name
		}
	}
	return ""
}

// Result says of a program whether a template has it as a repository needs it.
type Result struct {
	Program string `json:"program"`
	Path    string `json:"path,omitempty"`    // in the sandbox
	Version string `json:"version,omitempty"` // that the template has
	// Wanted are the needs for it.
	Wanted []Need `json:"wanted,omitempty"`
	// Missing is true if the program is not there, or has a version that a need refuses.
	Missing bool `json:"missing"`
	// Fix is what to do if it is missing.
	Fix string `json:"fix,omitempty"`
}

// Check compares what a repository names, and other programs that it calls, with what a template has. What neither the template's
// report nor this package knows is left out.
func (n Needs) Check(has api.TemplateReport, calls ...string) []Result {
	out := []Result{}
	at := func(program string) *Result {
		i := slices.IndexFunc(out, func(r Result) bool { return r.Program == program })
		if i < 0 {
			out = append(out, Result{Program: program})
			i = len(out) - 1
		}
		return &out[i]
	}
	for _, need := range n.Toolchains {
		if p := programs()[need.Name]; p != "" {
			r := at(p)
			r.Wanted = append(r.Wanted, need)
		}
	}
	for _, p := range calls {
		if slices.ContainsFunc(has.Tools, func(t api.Tool) bool { return t.Name == p }) {
			at(p)
		}
	}
	if slices.ContainsFunc(out, func(r Result) bool { return r.Program == "mvn" || r.Program == "gradle" }) {
		at("javac") // Debian's maven brings a Java that does not compile
	}
	for i := range out {
		r := &out[i]
		var tool api.Tool
		if j := slices.IndexFunc(has.Tools, func(t api.Tool) bool { return t.Name == r.Program }); j >= 0 {
			tool = has.Tools[j]
		}
		r.Path, r.Version, r.Missing = tool.Path, tool.Version, !tool.Present
		for _, need := range r.Wanted {
			r.Missing = r.Missing || r.Version != "" && !Fits(r.Version, need.Version)
		}
		if r.Missing {
			r.Fix = n.fix(*r, tool, has.Toolchains)
		}
	}
	slices.SortFunc(out, func(a, b Result) int { return strings.Compare(a.Program, b.Program) })
	return out
}

// fix says what to type, the least work first.
func (n Needs) fix(r Result, tool api.Tool, found []api.Toolchain) string {
	var ways []string
	if t := offered(r, found); t != nil {
		ways = append(ways, "hortus daemon stop && export HORTUS_TOOLCHAINS=auto,"+t.Setting)
	}
	if tool.Install != "" && !tool.Present {
		ways = append(ways, tool.Install)
	}
	if n.Image != "" {
		ways = append(ways, "hortus task --image "+n.Image+" (from "+n.ImageFile+")")
	}
	if len(ways) == 0 {
		what := r.Program
		if len(r.Wanted) > 0 {
			what += " " + r.Wanted[0].Version
		}
		return "install " + what + " below /usr on the daemon's machine, or use an image that has it: hortus task --image NAME"
	}
	return strings.Join(ways, ", or ")
}

// offered finds a toolchain of the machine that fits and is not shown.
func offered(r Result, found []api.Toolchain) *api.Toolchain {
	for i := range slices.Backward(found) {
		t := &found[i]
		if t.Shown || t.Name != Of(r.Program) {
			continue
		}
		v := strings.TrimLeft(t.Version, "abcdefghijklmnopqrstuvwxyz-")
		if !slices.ContainsFunc(r.Wanted, func(need Need) bool { return !Fits(cmp.Or(v, t.Version), need.Version) }) {
			return t
		}
	}
	return nil
}

// Missing returns what to do about a program that a gate did not find; "" if that is only to install it.
func (n Needs) Missing(program string, found []api.Toolchain) string {
	r := Result{Program: program}
	for _, need := range n.Toolchains {
		if need.Name == Of(program) {
			r.Wanted = append(r.Wanted, need)
		}
	}
	if offered(r, found) == nil && n.Image == "" {
		return ""
	}
	return n.fix(r, api.Tool{}, found)
}

// between is a range of two versions.
var between = lazyregexp.New(`([\d.]+) - ([\d.]+)`)

// spaced is an operator that stands apart from its version.
var spaced = lazyregexp.New(`([<>=~^!]+)\s+`)

// Fits reports whether a version is one that a need names. What is not understood, such as a name, fits.
func Fits(has, want string) bool {
	for _, any := range strings.Split(want, "||") {
		all := true
		any = spaced.ReplaceAllString(between.ReplaceAllString(any, ">=$1 <=$2"), "$1")
		for _, one := range strings.FieldsFunc(any, func(r rune) bool { return r == ',' || r == ' ' }) {
			all = all && fits(numbers(has), one)
		}
		if all {
			return true
		}
	}
	return false
}

// fits compares with one condition.
func fits(has []int, want string) bool {
	bare := strings.TrimLeft(want, "^~>=<!v")
	op := strings.TrimSuffix(want[:len(want)-len(bare)], "v")
	numbers := numbers(bare)
	if len(numbers) == 0 || len(has) == 0 {
		return true
	}
	order := slices.Compare(has, numbers)
	begins := func(n int) bool { n = min(n, len(numbers)); return len(has) >= n && slices.Equal(has[:n], numbers[:n]) }
	switch op {
	case ">=":
		return order >= 0
	case ">":
		return order > 0 && !begins(len(numbers))
	case "<":
		return order < 0
	case "<=":
		return order <= 0 || begins(len(numbers))
	case "!=":
		return !begins(len(numbers))
	case "^":
		return order >= 0 && begins(1)
	case "~", "~=", "~>":
		return order >= 0 && begins(max(1, min(2, len(numbers))))
	}
	return begins(len(numbers))
}

// numbers reads the numbers that a version begins with.
func numbers(v string) (out []int) {
	for part := range strings.SplitSeq(v, ".") {
		digits := part[:len(part)-len(strings.TrimLeft(part, "0123456789"))]
		n, err := strconv.Atoi(digits)
		if err != nil || len(out) == 4 {
			break
		}
		if out = append(out, n); len(digits) < len(part) {
			break
		}
	}
	return out
}
