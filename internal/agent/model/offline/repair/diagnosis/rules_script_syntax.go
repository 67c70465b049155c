package diagnosis

import (
	"regexp"
	"strconv"
	"strings"
)

// jsSyntax corrects brackets and quotes.
func jsSyntax(f *failure) ([]Correction, string, string) {
	if !strings.HasPrefix(f.error, "SyntaxError") || f.line < 0 {
		return nil, "", ""
	}
	lines := f.lines()
	cur := lines[f.line]
	var fixes []Correction
	line := func(i int, cause, to string) { fixes = append(fixes, Correction{cause, f.withLine(i, to)}) }
	if strings.Contains(f.error, "Invalid or unexpected token") || strings.Contains(f.error, "Unterminated template literal") {
		code := strings.TrimRight(cur, " \t")
		body := strings.TrimRight(code, ");],")
		line(f.line, "the text lacks its closing quote", body+unclosedQuote(code)+code[len(body):])
	}
	for _, i := range bracketLines(lines, f.line, false) {
		missing := missingOn(lines, i, false)
		for _, l := range closeLine(lines[i], missing) {
			line(i, "line "+strconv.Itoa(i+1)+" lacks "+missing, l)
		}
		if len(missing) == 1 {
			fixes = append(fixes, insertCloser(f, i, missing)...)
		}
	}
	// A block header such as "if (a > b {" lacks its parenthesis before the brace.
	for i := f.line; i >= 0 && i > f.line-4; i-- {
		t := strings.TrimRight(lines[i], " \t")
		if body, ok := strings.CutSuffix(t, "{"); ok && strings.Count(body, "(") > strings.Count(body, ")") && !strings.HasSuffix(strings.TrimSpace(body), "=>") {
			line(i, "line "+strconv.Itoa(i+1)+" lacks )", strings.TrimRight(body, " ")+") {")
		}
	}
	if at := missingBrace(lines); at >= 0 {
		before := prevIndex(lines, at)
		if at == len(lines) {
			before = prevIndex(lines, len(lines))
		}
		if before >= 0 {
			line(before, "a block lacks its closing brace", lines[before]+"\n"+indentOf(braceOwner(lines, at))+"}")
		}
	}
	if strings.Contains(f.error, "Unexpected token '}'") {
		if extra := regexp.MustCompile(`^\s*}\s*$`); extra.MatchString(cur) {
			line(f.line, "there is one closing brace too many", "")
		}
	}
	// The lines that close several brackets at once, such as "});".
	for i := f.line; i >= 0 && i > f.line-3; i-- {
		t := strings.TrimSpace(lines[i])
		if t == "};" || t == "}" {
			line(i, "line "+strconv.Itoa(i+1)+" lacks )", strings.Replace(lines[i], "}", "})", 1))
		}
	}
	if strings.Contains(f.error, "Missing initializer in const declaration") {
		line(f.line, "a constant without a value", strings.Replace(cur, "const ", "let ", 1))
	}
	return fixes, f.error, "What is line " + strconv.Itoa(f.line+1) + " meant to say? It does not parse: " + strings.TrimSpace(cur)
}

// missingBrace finds, by indentation, the line in front of which a block should
// have been closed; -1 when the braces are balanced.
func missingBrace(lines []string) int {
	if len(balance(lines, false, nil)) == 0 {
		return -1
	}
	found := -1
	balance(lines, false, func(n int, stack []open) {
		if found >= 0 || len(stack) == 0 || n+1 >= len(lines) {
			return
		}
		top := stack[len(stack)-1]
		next := lines[n+1]
		t := strings.TrimSpace(next)
		if top.c != '{' || t == "" || top.line == n+1 {
			return
		}
		in, owner := len(indentOf(next)), len(indentOf(lines[top.line]))
		if in < owner || in == owner && !strings.HasPrefix(t, "}") {
			found = n + 1
		}
	})
	if found < 0 {
		return len(lines)
	}
	return found
}

// braceOwner is the line that opened the block that is to be closed before at.
func braceOwner(lines []string, at int) string {
	stack := balance(lines[:at], false, nil)
	for i := len(stack) - 1; i >= 0; i-- {
		if stack[i].c == '{' {
			return lines[stack[i].line]
		}
	}
	return ""
}
