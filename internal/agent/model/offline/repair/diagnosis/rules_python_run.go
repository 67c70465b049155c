package diagnosis

import (
	"regexp"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/lazyregexp"
)

var (
	reStrPlus  = lazyregexp.New(`^TypeError: (?:can only concatenate str|must be str, not|unsupported operand type\(s\) for \+: '\w+' and 'str')`)
	reOperand  = lazyregexp.New(`\+\s*([A-Za-z_][\w.]*(?:\([^()]*\)|\[[^\[\]]*\])?|\d+(?:\.\d+)?)`)
	reFirst    = lazyregexp.New(`([(=,]\s*)([A-Za-z_][\w.]*(?:\([^()]*\)|\[[^\[\]]*\])?|\d+)(\s*\+\s*f?["'])`)
	reListIn   = lazyregexp.New(`\b(sum|max|min|any|all|len|set|sorted|tuple)\(\[`)
	reListOf   = lazyregexp.New(`\blist\((range\([^()]*\))\)`)
	reRangeLen = lazyregexp.New(`range\(((?:\w+,\s*)?len\(\w+\))\s*\+\s*1\)`)
	reSleep    = lazyregexp.New(`\bsleep\(\s*([\d_.]+)`)
	reForever  = lazyregexp.New(`(?m)^\s*(?:while\s+(?:True|1)\s*:|while\s*\(\s*(?:true|1)\s*\))`)
)

// pyConcat turns numbers into text where they are added to text.
func pyConcat(f *failure) ([]Correction, string, string) {
	if f.line < 0 || !reStrPlus.MatchString(f.error) {
		return nil, "", ""
	}
	wrap := func(s string) string {
		if strings.HasPrefix(s, "str(") || strings.HasPrefix(s, "f\"") {
			return s
		}
		return "str(" + s + ")"
	}
	cur := f.current()
	to := reOperand.ReplaceFunc(cur, func(m []string) string {
		return strings.TrimSuffix(m[0], m[1]) + wrap(m[1])
	})
	to = reFirst.ReplaceFunc(to, func(m []string) string { return m[1] + wrap(m[2]) + m[3] })
	if to == cur {
		return nil, "", ""
	}
	return one("a number is added to a text; it has to be text first", f.withLine(f.line, to))
}

func pyIndex(f *failure) ([]Correction, string, string) {
	if !strings.HasPrefix(f.error, "IndexError") || !reRangeLen.MatchString(f.source()) {
		return nil, "", ""
	}
	return one("the loop goes one past the end of the list", f.withSource(reRangeLen.ReplaceAllString(f.source(), "range($1)")))
}

// pySlow remembers the results of a function that calls itself more than once.
func pySlow(f *failure) ([]Correction, string, string) {
	if f.req.Result.Category != api.CategoryTimeout {
		return nil, "", ""
	}
	lines := f.lines()
	for i, l := range lines {
		m := rePyDefLine.FindStringSubmatch(l)
		if m == nil || strings.TrimSpace(m[3]) == "" || i > 0 && strings.Contains(lines[i-1], "cache") {
			continue
		}
		end := i + 1
		for end < len(lines) && (strings.TrimSpace(lines[end]) == "" || len(indentOf(lines[end])) > len(m[1])) {
			end++
		}
		body := strings.Join(lines[i+1:end], "\n")
		if len(regexp.MustCompile(`\b`+m[2]+`\(`).FindAllString(body, -1)) < 2 || strings.Contains(body, "print(") || strings.Contains(body, ".append(") || strings.Contains(body, "self.") {
			continue
		}
		lines[i] = m[1] + "@lru_cache(maxsize=None)\n" + l
		src := addPythonImport(strings.Join(lines, "\n"), "from functools import lru_cache")
		return one(m[2]+" computes the same values again and again; now it remembers them", f.withSource(src))
	}
	return nil, "", ""
}

// maxLists bounds how many lists one correction takes apart.
const maxLists = 64

// pyMemory streams what was collected only to be added up.
func pyMemory(f *failure) ([]Correction, string, string) {
	if f.req.Result.Category != api.CategoryMemory {
		return nil, "", ""
	}
	src := reListOf.ReplaceAllString(f.source(), "$1")
	for range maxLists {
		at := reListIn.FindStringIndex(src)
		if at == nil {
			break
		}
		start := at[1] - 1
		depth, end := 0, -1
		for i := start; i < len(src) && end < 0; i++ {
			switch src[i] {
			case '[':
				depth++
			case ']':
				if depth--; depth == 0 {
					end = i
				}
			}
		}
		if end < 0 || !strings.Contains(src[start:end], " for ") || strings.HasPrefix(src[at[0]:], "len") {
			break
		}
		src = src[:start] + src[start+1:end] + src[end+1:]
	}
	if src == f.source() {
		return nil, "", ""
	}
	return one("a list of all values does not fit into memory; one value at a time does", f.withSource(src))
}

func pyEncoding(f *failure) ([]Correction, string, string) {
	if f.line < 0 || !strings.HasPrefix(f.error, "UnicodeEncodeError") && !strings.HasPrefix(f.error, "UnicodeDecodeError: 'ascii'") {
		return nil, "", ""
	}
	re := lazyregexp.New(`\bopen\(([^()]*)\)`)
	src := re.ReplaceFunc(f.source(), func(m []string) string {
		if strings.Contains(m[1], "encoding") || strings.Contains(m[1], `b"`) {
			return m[0]
		}
		return "open(" + m[1] + `, encoding="utf-8")`
	})
	if src == f.source() {
		return nil, "", ""
	}
	return one("the file is opened without its encoding", f.withSource(src))
}

// pyAsk knows failures that only a person can decide.
func pyAsk(f *failure) ([]Correction, string, string) {
	src := f.source()
	if f.req.Result.Category == api.CategoryTimeout {
		if m := reSleep.FindStringSubmatch(src); m != nil {
			return nil, "the program sleeps for " + m[1] + " s, longer than its time limit", "Should it wait less, or have more time (--timeout)?"
		}
		if reForever.MatchString(src) && !strings.Contains(src, "break") && !strings.Contains(src, "return") {
			return nil, "the program has a loop without an end", "When should the loop end?"
		}
		return nil, "", ""
	}
	for _, k := range [][3]string{
		{"ZeroDivisionError", "the program divides by zero", "What should happen when the divisor is zero?"},
		{"EOFError", "the program asks for input, and a sandbox has none", "Which value should the program use in place of the input?"},
		{"KeyError", "the program asks for a key that is not there", "What should happen when the key is missing?"},
		{"IndexError", "the program asks for an element that is not there", "What should happen when there are fewer elements?"},
		{"RecursionError", "a function calls itself too deeply", "When should the recursion end?"},
		{"PermissionError", "the program may not use that file", "Which file below the workspace should it use?"},
		{"AssertionError", "an assertion of the program failed", "Is the assertion wrong, or the code before it?"},
	} {
		if strings.HasPrefix(f.error, k[0]) {
			return nil, k[1] + " (" + f.error + ")", k[2]
		}
	}
	return nil, "", ""
}
