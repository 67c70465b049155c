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
			return fmt.Sprintf("%s line %d is a placeholder, not code: %s", f.Path, line, api.Clip(text, 64))
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

var (
	asksRandom = lazyregexp.New(`(?i)\b(random|randomly|shuffled?|dice|lottery|uuid|guid|password|passphrase|token|secret|api key|nonce|salt)\b`)
	asksSecret = lazyregexp.New(`(?i)\b(password|passphrase|token|secret|api key|nonce|salt)s?\b`)
	asksSeed   = lazyregexp.New(`(?i)\b(seed(ed)?|reproducibl[ey]|deterministic|repeatable|the same each time)\b`)
	// fixedSeed is a generator that begins with a number of the program's own.
	fixedSeed = lazyregexp.New(`random\.seed\(\s*["'\d]|\bRandom\(\s*\d|default_rng\(\s*\d|\bsrand\(\s*\d|mt_srand\(\s*\d|NewSource\(\s*\d|NewPCG\(\s*\d|seed_from_u64\(\s*\d|mt19937\w*\s*\w*[({]\s*\d|seedrandom\(\s*["'\d]|\bRANDOM=\d|Random\.new\(\s*\d`)
	// guessable are generators whose next number follows from the last ones.
	guessable = lazyregexp.New(`\brandom\.(random|randint|choice|choices|sample|randrange)\(|\bMath\.random\(|"math/rand(/v2)?"|\bjava\.util\.Random\b|\bnew Random\(|\brand\(|\$RANDOM\b`)
)

// Cautions finds what a person should look at in a program that does what was planned: a
// program can print a fixed "random" number, and nothing that runs it once would notice.
// They decide nothing. There are at most a few.
func Cautions(plan api.ExecutionPlan, a api.CodeArtifact) (found []api.Caution) {
	asked := plan.Task
	for name, v := range plan.Parameters {
		if name != "code" { // a program that was given
			asked += " " + v
		}
	}
	if !asksRandom.MatchString(asked) {
		return nil
	}
	look := func(re *lazyregexp.Regexp, uses string) {
		for _, f := range a.Files {
			for i, line := range strings.Split(f.Content, "\n") {
				if re.MatchString(line) {
					found = append(found, api.Caution{Path: f.Path, Line: i + 1, Uses: uses})
					return
				}
			}
		}
	}
	if !asksSeed.MatchString(asked) {
		look(fixedSeed, "a fixed seed: the random numbers are the same in every run")
	}
	if asksSecret.MatchString(asked) {
		look(guessable, "predictable random numbers used for a secret")
	}
	return found
}

// blankStrings replaces what stands inside string literals by spaces and keeps
// quotes, comments and line breaks, so that a look for comments does not find
// text that a program prints. It reads quotes as Python does (with triple
// quotes) or as JavaScript does (with template literals); a source that does not
// parse is blanked as far as the reading goes.
func blankStrings(src string, python bool) string {
	var out strings.Builder
	out.Grow(len(src))
	for i := 0; i < len(src); {
		c := src[i]
		switch {
		case python && c == '#', !python && strings.HasPrefix(src[i:], "//"):
			end := strings.IndexByte(src[i:], '\n')
			if end < 0 {
				end = len(src) - i
			}
			out.WriteString(src[i : i+end])
			i += end
		case !python && strings.HasPrefix(src[i:], "/*"):
			end := strings.Index(src[i+2:], "*/")
			if end < 0 {
				end = len(src) - i
			} else {
				end += 4
			}
			out.WriteString(src[i : i+end])
			i += end
		case c == '"' || c == '\'' || !python && c == '`':
			quote := string(c)
			if python && strings.HasPrefix(src[i:], strings.Repeat(quote, 3)) {
				quote = strings.Repeat(quote, 3)
			}
			out.WriteString(quote)
			i = blankUntil(&out, src, i+len(quote), quote)
		default:
			out.WriteByte(c)
			i++
		}
	}
	return out.String()
}

// blankUntil blanks from i to the closing quote and gives the place after it. A
// single-line literal also ends with its line.
func blankUntil(out *strings.Builder, src string, i int, quote string) int {
	multi := len(quote) == 3 || quote == "`"
	for i < len(src) {
		switch {
		case strings.HasPrefix(src[i:], quote):
			out.WriteString(quote)
			return i + len(quote)
		case src[i] == '\n':
			out.WriteByte('\n')
			i++
			if !multi {
				return i
			}
		case src[i] == '\\' && i+1 < len(src) && src[i+1] != '\n':
			out.WriteString("  ")
			i += 2
		default:
			out.WriteByte(' ')
			i++
		}
	}
	return i
}
