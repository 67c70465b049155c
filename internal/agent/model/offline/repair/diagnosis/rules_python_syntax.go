package diagnosis

import (
	"strconv"
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

var (
	reHeader    = lazyregexp.New(`^\s*(?:async\s+)?(?:def|class|if|elif|else|for|while|try|except|finally|with|match|case)\b`)
	rePy2Print  = lazyregexp.New(`^(\s*)print\s+([^(=\s].*?|\(.*\)\s*[%,+].*)$`)
	reElseIf    = lazyregexp.New(`^(\s*)else\s+if\b`)
	reAssignIf  = lazyregexp.New(`([^=!<>:+\-*/%])=([^=])`)
	reNever     = lazyregexp.New(`'([(\[{])' was never closed`)
	reUnmatched = lazyregexp.New(`unmatched '([)\]}])'`)
)

// pySyntax corrects what the parser of Python complains about, on the line that
// it names or on the lines before it.
func pySyntax(f *failure) ([]Correction, string, string) {
	if !strings.HasPrefix(f.error, "SyntaxError") || f.line < 0 {
		return nil, "", ""
	}
	lines := f.lines()
	var fixes []Correction
	line := func(i int, cause, to string) {
		if i >= 0 && i < len(lines) && to != lines[i] {
			fixes = append(fixes, Correction{cause, f.withLine(i, to)})
		}
	}
	cur := lines[f.line]
	if strings.Contains(f.error, "print") && rePy2Print.MatchString(cur) || rePy2Print.MatchString(cur) {
		for i, l := range lines {
			if m := rePy2Print.FindStringSubmatch(l); m != nil {
				lines[i] = m[1] + "print(" + strings.TrimSuffix(strings.TrimSpace(m[2]), ",") + ")"
			}
		}
		fixes = append(fixes, Correction{"print is a function in Python 3", f.withSource(strings.Join(lines, "\n"))})
		lines = f.lines()
	}
	for _, r := range [][2]string{{"\u201c", `"`}, {"\u201d", `"`}, {"\u2018", "'"}, {"\u2019", "'"}, {"\u00a0", " "}} {
		if strings.Contains(f.error, "invalid character") || strings.Contains(f.error, "non-printable") {
			for i := range lines {
				lines[i] = strings.ReplaceAll(lines[i], r[0], r[1])
			}
		}
	}
	if src := strings.Join(lines, "\n"); src != f.source() {
		fixes = append(fixes, Correction{"the program has typographic characters in place of plain ones", f.withSource(src)})
		lines = f.lines()
	}
	if m := reElseIf.FindStringSubmatch(cur); m != nil {
		line(f.line, "else if is elif in Python", m[1]+"elif"+cur[len(m[0]):])
	}
	if strings.Contains(cur, "&&") || strings.Contains(cur, "||") {
		line(f.line, "Python uses the operators and and or", strings.ReplaceAll(strings.ReplaceAll(cur, "&&", "and"), "||", "or"))
	}
	if strings.Contains(f.error, "expected ':'") || strings.Contains(f.error, "invalid syntax") && reHeader.MatchString(cur) {
		code, comment := splitComment(cur)
		if !strings.HasSuffix(code, ":") {
			line(f.line, "the line that begins a block lacks its colon", code+":"+comment)
		}
	}
	if strings.Contains(f.error, "instead of '='") && (reHeader.MatchString(cur) || strings.Contains(cur, " if ")) {
		line(f.line, "a comparison is written ==", reAssignIf.ReplaceAllString(cur, "$1==$2"))
	}
	if strings.Contains(f.error, "unterminated string literal") {
		code := strings.TrimRight(cur, " \t")
		q := unclosedQuote(code)
		body := strings.TrimRight(code, "):],;")
		line(f.line, "the text lacks its closing quote", body+q+code[len(body):])
		line(f.line, "the text lacks its closing quote", code+q)
	}
	if strings.Contains(f.error, "unterminated triple-quoted") {
		fixes = append(fixes, Correction{"the long text lacks its closing quotes", f.withSource(strings.TrimRight(f.source(), "\n") + "\n\"\"\"\n")})
	}
	if m := reUnmatched.FindStringSubmatch(f.error); m != nil {
		if i := strings.LastIndex(cur, m[1]); i >= 0 {
			line(f.line, "there is one "+m[1]+" too many", cur[:i]+cur[i+1:])
		}
	}
	fixes = append(fixes, pyBrackets(f)...)
	if strings.Contains(f.error, "outside function") || strings.Contains(f.error, "outside loop") {
		line(f.line, "the line stands outside of its block", indentOf(previous(lines, f.line))+strings.TrimSpace(cur))
		line(f.line, "the line stands outside of its block", "    "+indentOf(previous(lines, f.line))+strings.TrimSpace(cur))
	}
	if strings.Contains(f.error, "Perhaps you forgot a comma") || strings.Contains(f.error, "invalid syntax") {
		if p := prevIndex(lines, f.line); p >= 0 && !strings.HasSuffix(lines[p], ",") && !strings.HasSuffix(lines[p], ":") {
			line(p, "the line before lacks its comma", lines[p]+",")
		}
		if p := prevIndex(lines, f.line); p >= 0 && reHeader.MatchString(lines[p]) && !strings.HasSuffix(strings.TrimSpace(lines[p]), ":") {
			line(p, "the line that begins a block lacks its colon", lines[p]+":")
		}
	}
	return fixes, f.error, "What is line " + strconv.Itoa(f.line+1) + " meant to say? It does not parse: " + strings.TrimSpace(cur)
}

// pyBrackets closes brackets: on the line where the first open one stands when
// that line ends a statement, then where it was opened.
func pyBrackets(f *failure) []Correction {
	lines := f.lines()
	var fixes []Correction
	for _, i := range bracketLines(lines, f.line, true) {
		missing := missingOn(lines, i, true)
		if missing == "" {
			continue
		}
		for _, l := range closeLine(lines[i], missing) {
			fixes = append(fixes, Correction{"line " + strconv.Itoa(i+1) + " lacks " + missing, f.withLine(i, l)})
		}
		if len(missing) == 1 {
			fixes = append(fixes, insertCloser(f, i, missing)...)
		}
	}
	// A statement of several lines may end below the line that opened it.
	for i := f.line; i < len(lines) && i < f.line+12; i++ {
		if stack := balance(lines[f.line:i+1], true, nil); len(stack) > 0 && i > f.line && i+1 < len(lines) && (strings.TrimSpace(lines[i+1]) == "" || len(indentOf(lines[i+1])) <= len(indentOf(lines[f.line]))) {
			closing := ""
			for j := len(stack) - 1; j >= 0; j-- {
				closing += string(closers[stack[j].c])
			}
			fixes = append(fixes, Correction{"the statement of line " + strconv.Itoa(f.line+1) + " lacks " + closing, f.withLine(i, lines[i]+closing)})
			break
		}
	}
	return fixes
}

// bracketLines lists the lines that may lack a closer: the named one, then those
// before it, nearest first.
func bracketLines(lines []string, at int, python bool) []int {
	var out []int
	for i := at; i >= 0 && i > at-4; i-- {
		if missingOn(lines, i, python) != "" {
			out = append(out, i)
		}
	}
	return out
}

// insertCloser tries the closer in front of another one, as in f(g(x] for a list
// of calls.
func insertCloser(f *failure, i int, c string) []Correction {
	l := f.lines()[i]
	var fixes []Correction
	for k := len(l) - 1; k > 0 && len(fixes) < 3; k-- {
		if strings.ContainsRune(")]}", rune(l[k])) {
			fixes = append(fixes, Correction{"line " + strconv.Itoa(i+1) + " lacks " + c, f.withLine(i, l[:k]+c+l[k:])})
		}
	}
	return fixes
}

// pyIndent corrects indentation.
func pyIndent(f *failure) ([]Correction, string, string) {
	if f.line < 0 || !strings.HasPrefix(f.error, "IndentationError") && !strings.HasPrefix(f.error, "TabError") {
		return nil, "", ""
	}
	lines := f.lines()
	cur := lines[f.line]
	before := previous(lines, f.line)
	indent := indentOf(before)
	if strings.HasSuffix(strings.TrimSpace(before), ":") {
		indent += "    "
	}
	var fixes []Correction
	at := func(in, cause string) {
		fixes = append(fixes, Correction{cause, f.withLine(f.line, in+strings.TrimLeft(cur, " \t"))})
	}
	fixes = append(fixes, odd(f)...)
	switch {
	case strings.HasPrefix(f.error, "TabError"):
		fixes = append(fixes, Correction{"tabs and spaces are mixed", f.withSource(strings.ReplaceAll(f.source(), "\t", "    "))})
		fixes = append(fixes, Correction{"tabs and spaces are mixed", f.withSource(strings.ReplaceAll(f.source(), "\t", "        "))})
	case strings.Contains(f.error, "expected an indented block"):
		if n := blockEnd(lines, f.line); n > f.line+1 {
			moved := f.lines()
			for i := f.line; i < n; i++ {
				if strings.TrimSpace(moved[i]) != "" {
					moved[i] = "    " + moved[i]
				}
			}
			at(indent, "the line belongs into the block above")
			fixes = append(fixes, Correction{"the lines belong into the block above", f.withSource(strings.Join(moved, "\n"))})
			break
		}
		at(indent, "the line belongs into the block above")
	default:
		at(indent, "the line is indented unlike its block")
		for len(indent) >= 4 {
			indent = indent[:len(indent)-4]
			at(indent, "the line is indented unlike its block")
		}
	}
	return fixes, f.error, "Which block does line " + strconv.Itoa(f.line+1) + " belong to?"
}

// odd finds the one line near the error whose indentation is no multiple of
// four, where all others are: it is the one that moved, whichever line the parser
// names. It goes back to the deeper level first, then to the level below.
func odd(f *failure) []Correction {
	lines := f.lines()
	at := -1
	depth := 0
	balance(lines, true, func(n int, stack []open) {
		if depth == 0 && strings.TrimSpace(lines[n]) != "" && len(indentOf(lines[n]))%4 != 0 {
			if at >= 0 {
				at = len(lines)
			} else {
				at = n
			}
		}
		depth = len(stack)
	})
	if at < 0 || at >= len(lines) {
		return nil
	}
	in := len(indentOf(lines[at])) / 4 * 4
	text := strings.TrimLeft(lines[at], " \t")
	var fixes []Correction
	for _, n := range []int{in + 4, in} {
		fixes = append(fixes, Correction{"line " + strconv.Itoa(at+1) + " is indented unlike its block", f.withLine(at, strings.Repeat(" ", n)+text)})
	}
	return fixes
}

// blockEnd is the end of the lines from i on that are indented as i is or deeper.
func blockEnd(lines []string, i int) int {
	in := len(indentOf(lines[i]))
	for n := i + 1; n < len(lines); n++ {
		if strings.TrimSpace(lines[n]) == "" || len(indentOf(lines[n])) < in {
			return n
		}
	}
	return len(lines)
}

func indentOf(l string) string { return l[:len(l)-len(strings.TrimLeft(l, " \t"))] }

func prevIndex(lines []string, i int) int {
	for i--; i >= 0; i-- {
		if strings.TrimSpace(lines[i]) != "" {
			return i
		}
	}
	return -1
}

func previous(lines []string, i int) string {
	if p := prevIndex(lines, i); p >= 0 {
		return lines[p]
	}
	return ""
}

// splitComment parts a line from its comment; a # inside of a text stays.
func splitComment(l string) (code, comment string) {
	quote := byte(0)
	for i := 0; i < len(l); i++ {
		switch c := l[i]; {
		case quote != 0:
			if c == '\\' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '#':
			code = strings.TrimRight(l[:i], " \t")
			return code, l[len(code):]
		}
	}
	return strings.TrimRight(l, " \t"), ""
}

// unclosedQuote returns the quote that a line opens and does not close.
func unclosedQuote(l string) string {
	quote := byte(0)
	for i := 0; i < len(l); i++ {
		switch c := l[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\'' || c == '`'):
			quote = c
		}
	}
	if quote == 0 {
		return `"`
	}
	return string(quote)
}
