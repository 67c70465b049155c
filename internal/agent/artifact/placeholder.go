package artifact

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/language"
	"hortus.dev/internal/platform/lazyregexp"
)

// Comments that say that the code is not there. They are looked for in comments
// alone: a program may print or store any of these words.
var placeholderComment = lazyregexp.New(`(?i)` + strings.Join([]string{
	`\b(todo|fixme|xxx)\b\W{0,3}(please )?(implement|fill|complete|finish|write|add)\b`,
	`\b(todo|fixme)\b.*\b(implementation|your code|logic here)\b`,
	`\brest of (the |your |this )?(\w+ )?(implementation|code|program|function|class|logic|file|script)\b`,
	`\b(your|actual|real|the) (code|implementation|logic) (goes |should go |comes |belongs )?here\b`,
	`\b(code|implementation|logic) (goes|comes) here\b`,
	`\bimplement(ation)? (me|this|here|later)\b`,
	`\b(insert|add|put|write) (your |the )?(code|implementation|logic)( \w+)? here\b`,
	`\b(existing|remaining|previous|other) (code|functions|methods|implementation)\b.*(\.\.\.|unchanged|here)`,
	`\.\.\. ?(existing|remaining|rest|other|more|same)\b`,
	`\b(omitted|left out|skipped) for brevity\b`,
	`^\W*(placeholder|to be implemented|not implemented( yet)?)\W*$`,
	`^\W*(\.\.\.|…)\W*$`,
}, "|"))

var (
	passComment  = lazyregexp.New(`(?i)^\s*(pass|return|return None|return null;?)\s*(#|//)\s*(implement|placeholder|todo)`)
	raiseNotImpl = lazyregexp.New(`^\s*raise\s+NotImplementedError\b`)
	throwNotImpl = lazyregexp.New(`(?i)\bthrow\s+(new\s+)?\w*Error\s*\(\s*['"` + "`" + `](not( yet)? implemented|to be implemented|unimplemented|implement me|todo)\b`)
	// missingCode is what Rust, Go, Java, C++ and others have for code that is not there.
	missingCode = lazyregexp.New(`(?i)^\s*((todo|unimplemented)!\(|panic\("(not implemented|todo|implement me)|throw new (UnsupportedOperationException\(|std::logic_error\("not implemented))`)

	pyDef         = lazyregexp.New(`^(\s*)(async\s+)?def\s+\w+`)
	pyDefEllipsis = lazyregexp.New(`^\s*(async\s+)?def\s+\w+.*:\s*\.\.\.\s*$`)
	pyClass       = lazyregexp.New(`^(\s*)class\s+(\w+)\s*(?:\(([^)]*)\))?\s*:`)
	jsClass       = lazyregexp.New(`\bclass\s+(\w+)`)
)

// Placeholder finds code that only pretends to be there. It returns a sentence
// that names the file and the line, or "" for a complete artifact. Base classes
// that leave a method to their subclasses, protocols and overloads are complete.
func Placeholder(a api.CodeArtifact) string {
	for _, f := range a.Files {
		var line int
		switch strings.ToLower(path.Ext(f.Path)) {
		case ".py":
			line = pythonPlaceholder(f.Content)
		case ".js", ".mjs", ".cjs", ".ts":
			line = scriptPlaceholder(f.Content)
		default:
			if l, ok := language.OfFile(f.Path); ok {
				line = commentPlaceholder(f.Content, l.Comment)
			}
			if n := firstMatch(missingCode, f.Content); n > 0 && (line == 0 || n < line) {
				line = n
			}
		}
		if line > 0 {
			text := strings.TrimSpace(strings.Split(f.Content, "\n")[line-1])
			return fmt.Sprintf("%s line %d is a placeholder, not code: %s", f.Path, line, clip(text))
		}
	}
	return ""
}

// firstMatch gives the number of the first line that matches, or 0.
func firstMatch(re *lazyregexp.Regexp, src string) int {
	for i, l := range strings.Split(src, "\n") {
		if re.MatchString(l) {
			return i + 1
		}
	}
	return 0
}

func pythonPlaceholder(src string) int {
	if n := commentPlaceholder(src, "#"); n > 0 {
		return n
	}
	lines := strings.Split(blankStrings(src, true), "\n")
	for i, l := range lines {
		switch {
		case passComment.MatchString(strings.Split(src, "\n")[i]):
			return i + 1
		case raiseNotImpl.MatchString(l):
			if soleStatement(lines, i) && !leftToSubclass(lines, i) {
				return i + 1
			}
		case strings.TrimSpace(l) == "...":
			if soleStatement(lines, i) && !leftToSubclass(lines, i) {
				return i + 1
			}
		case pyDefEllipsis.MatchString(l):
			if !leftToSubclass(lines, i+1) {
				return i + 1
			}
		}
	}
	return 0
}

// soleStatement says whether line i is everything that its block does, so that
// a raise behind a condition stays legitimate.
func soleStatement(lines []string, i int) bool {
	for j := i - 1; j >= 0; j-- {
		t := strings.TrimSpace(lines[j])
		if t == "" || strings.HasPrefix(t, "#") {
			continue
		}
		return pyDef.MatchString(lines[j]) || strings.Trim(t, `"' `) == "" ||
			strings.HasPrefix(t, "class ") || strings.HasPrefix(t, ") ->")
	}
	return true
}

// leftToSubclass says whether the function around line i belongs to others to
// fill in: it is abstract, an overload, in a protocol, or its class is a base in
// this file.
func leftToSubclass(lines []string, i int) bool {
	all := strings.Join(lines, "\n")
	def := -1
	for j := min(i, len(lines)) - 1; j >= 0 && def < 0; j-- {
		if pyDef.MatchString(lines[j]) {
			def = j
		} else if pyClass.MatchString(lines[j]) {
			// An empty class, such as an exception, needs no more than this.
			return true
		}
	}
	if def < 0 {
		return false
	}
	indent := len(lines[def]) - len(strings.TrimLeft(lines[def], " \t"))
	for j := def - 1; j >= 0; j-- {
		t := strings.TrimSpace(lines[j])
		if !strings.HasPrefix(t, "@") {
			break
		}
		if strings.Contains(t, "abstract") || strings.Contains(t, "overload") {
			return true
		}
	}
	for j := def - 1; j >= 0; j-- {
		m := pyClass.FindStringSubmatch(lines[j])
		if m == nil || len(m[1]) >= indent {
			continue
		}
		return strings.Contains(m[3], "Protocol") || strings.Contains(m[3], "ABC") ||
			regexp.MustCompile(`class\s+\w+\s*\([^)]*\b`+m[2]+`\b`).MatchString(all)
	}
	return false
}

func scriptPlaceholder(src string) int {
	if n := commentPlaceholder(src, "//"); n > 0 {
		return n
	}
	base := ""
	for i, l := range strings.Split(src, "\n") {
		if m := jsClass.FindStringSubmatch(l); m != nil {
			base = m[1]
		}
		if !throwNotImpl.MatchString(l) {
			continue
		}
		if base != "" && regexp.MustCompile(`\bextends\s+`+base+`\b`).MatchString(src) {
			continue
		}
		return i + 1
	}
	return 0
}

// commentPlaceholder looks through the comments of a source and gives the line
// of the first that stands for missing code.
func commentPlaceholder(src, mark string) int {
	blank := strings.Split(blankStrings(src, mark == "#"), "\n")
	block := false
	for i, l := range blank {
		comment := ""
		switch {
		case block:
			comment = l
			block = !strings.Contains(l, "*/")
		case strings.Contains(l, mark):
			comment = l[strings.Index(l, mark)+len(mark):]
		case mark == "//" && strings.Contains(l, "/*"):
			comment = l[strings.Index(l, "/*")+2:]
			block = !strings.Contains(comment, "*/")
		}
		if strings.TrimSpace(comment) != "" && placeholderComment.MatchString(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(comment), "*/"))) {
			return i + 1
		}
	}
	return 0
}
