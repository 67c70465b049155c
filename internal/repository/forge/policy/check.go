package policy

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"hortus.dev/internal/repository/forge"
)

// maxRefusals is the maximum number of refusals of a check.
const maxRefusals = 100

// Check returns the refusals of a delivery; none means that it is allowed. An invalid policy
// refuses.
func (p Policy) Check(d Delivery) []Refusal {
	if err := p.Validate(); err != nil {
		return []Refusal{{Rule: "branch", Why: "the policy itself is wrong: " + err.Error()}}
	}
	all := append(p.branches(d), p.requests(d)...)
	add := func(rule, path, format string, args ...any) {
		all = append(all, Refusal{rule, path, fmt.Sprintf(format, args...)})
	}
	if len(d.Files) > p.MaxFiles {
		add("files", "", "%s changed, %d are allowed", plural(len(d.Files), "file"), p.MaxFiles)
	}
	var lines, size int64
	for i, f := range d.Files {
		if f.Added < 0 || f.Deleted < 0 || f.Size < 0 {
			add("lines", f.Path, "its figures are below 0")
			continue
		}
		lines = saturatingAdd(lines, saturatingAdd(int64(f.Added), int64(f.Deleted)))
		size = saturatingAdd(size, f.Size)
		// A delivery with too many files is refused whatever they are.
		if i >= p.MaxFiles || len(all) >= maxRefusals {
			continue
		}
		all = append(all, p.file(f)...)
	}
	if lines > int64(p.MaxLines) {
		add("lines", "", "%d lines changed, %d are allowed", lines, p.MaxLines)
	}
	if size > p.MaxBytes {
		add("bytes", "", "%d bytes in the changed files, %d are allowed", size, p.MaxBytes)
	}
	return all[:min(len(all), maxRefusals)]
}

// branches checks the pushed branch and the target.
func (p Policy) branches(d Delivery) []Refusal {
	var all []Refusal
	if err := forge.CheckBranch(d.Branch); err != nil {
		return append(all, Refusal{Rule: "branch", Why: err.Error()})
	}
	if err := forge.CheckBranch(d.Target); err != nil && d.Target != "" {
		all = append(all, Refusal{Rule: "target", Why: err.Error()})
	}
	if !doublestar.MatchUnvalidated(p.Branch, d.Branch) {
		all = append(all, Refusal{Rule: "branch", Why: fmt.Sprintf("the branch %s does not match %s", quote(d.Branch), p.Branch)})
	}
	for _, g := range p.Protected {
		if doublestar.MatchUnvalidated(normalize(g), normalize(d.Branch)) {
			all = append(all, Refusal{Rule: "protected", Why: fmt.Sprintf("the branch %s is protected by %s", quote(d.Branch), g)})
		}
	}
	if d.Target != "" && normalize(d.Branch) == normalize(d.Target) || d.Default != "" && normalize(d.Branch) == normalize(d.Default) {
		all = append(all, Refusal{Rule: "protected", Why: fmt.Sprintf("the branch %s is the target or the default branch itself", quote(d.Branch))})
	}
	for _, g := range d.Protected {
		if forges(g, d.Branch) {
			all = append(all, Refusal{Rule: "protected", Why: fmt.Sprintf("the forge protects the branch %s by %s", quote(d.Branch), quote(g))})
		}
	}
	return all
}

// forges reports whether a forge's rule may match a branch. Forges differ in the meaning of
// *, so the widest counts; an invalid rule matches every branch.
func forges(rule, branch string) bool {
	rule, branch = normalize(rule), normalize(branch)
	if len(rule) > maxPattern || !doublestar.ValidatePattern(rule) {
		return true
	}
	if doublestar.MatchUnvalidated(rule, branch) {
		return true
	}
	parts := strings.Split(rule, "*")
	if len(parts) == 1 {
		return rule == branch
	}
	if !strings.HasPrefix(branch, parts[0]) {
		return false
	}
	rest := branch[len(parts[0]):]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}

// file checks one change.
func (p Policy) file(f File) []Refusal {
	var all []Refusal
	add := func(rule, path, why string) { all = append(all, Refusal{rule, path, why}) }
	paths := []string{f.Path}
	switch f.Status {
	case "renamed":
		paths = append(paths, f.From) // it is removed there
	case "copied": // the source did not change
	case "added", "changed", "removed":
		if f.From != "" {
			add("path", f.Path, "it has a former path, and is neither renamed nor copied")
		}
	default:
		add("path", f.Path, "what happened to it is not known: "+quote(f.Status))
	}
	for _, path := range paths {
		if why := badPath(path); why != "" {
			add("path", path, why)
			continue
		}
		g := matching(p.Also, path)
		if g == "" && !p.allowed(path) {
			g = matching(p.Forbidden, path)
		}
		if g != "" {
			add("forbidden", path, "it matches "+g+", which a delivery must not touch")
		}
	}
	switch f.Mode {
	case 0o100644, 0o100755, 0o120000:
	case 0:
		if f.Status != "removed" {
			add("mode", f.Path, "it has no mode")
		}
	case 0o160000:
		if !p.allowed(f.Path) {
			add("mode", f.Path, "it is a submodule: its content is not in the delivery")
		}
	default:
		add("mode", f.Path, fmt.Sprintf("its mode is %o", f.Mode))
	}
	return all
}

func (p Policy) allowed(path string) bool {
	return slices.ContainsFunc(p.Allow, func(g string) bool { return doublestar.MatchUnvalidated(g, path) })
}

// matching returns the pattern that forbids a path, or "". A file or link that replaces a
// folder with forbidden files is forbidden too.
func matching(patterns []string, path string) string {
	path = normalize(path)
	for _, g := range patterns {
		folded := normalize(g)
		if doublestar.MatchUnvalidated(folded, path) {
			return g
		}
		for i, r := range folded {
			folder := folded[:i]
			last := folder[strings.LastIndexByte(folder, '/')+1:]
			// A folder of any name may be a file.
			if r == '/' && !strings.ContainsAny(last, `*?[{}\`) && doublestar.ValidatePattern(folder) && doublestar.MatchUnvalidated(folder, path) {
				return g
			}
		}
	}
	return ""
}

// badPath returns why no delivery may contain a path, or "".
func badPath(path string) string {
	if path == "" || len(path) > 4096 {
		return "its path is empty or longer than 4096 bytes"
	}
	if !utf8.ValidString(path) || strings.IndexFunc(path, unicode.IsControl) >= 0 || strings.Contains(path, `\`) {
		return "its path holds a backslash, control characters, or is not UTF-8"
	}
	for _, part := range strings.Split(path, "/") {
		switch clean := normalize(part); {
		case part == "", part == ".", part == "..":
			return "its path is absolute, or holds an empty part, . or .."
		case clean == "":
			return "a part of its path is no name on every system"
		case clean == ".git", strings.HasPrefix(clean, "git~"):
			return "its path leads into git's own folder"
		}
	}
	return ""
}

// normalize returns a name as tolerant file systems read it: without case, invisible
// characters, dots and spaces at the end of a component, and the name of a stream.
func normalize(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return unicode.ToLower(unicode.ToUpper(r))
	}, s)
	parts := strings.Split(s, "/")
	for i, part := range parts {
		if part == "." || part == ".." {
			continue
		}
		part, _, _ = strings.Cut(part, ":")
		parts[i] = strings.TrimRight(part, ". ")
	}
	return strings.Join(parts, "/")
}

// saturatingAdd adds without overflow.
func saturatingAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// quote quotes an untrusted name in at most about 200 bytes.
func quote(s string) string {
	if len(s) > 200 {
		s = s[:200] + "..."
	}
	return strconv.Quote(s)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
