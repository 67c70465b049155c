package diagnosis

import "strings"

var closers = map[byte]byte{'(': ')', '[': ']', '{': '}'}

// open is a bracket that waits for its end.
type open struct {
	c    byte
	line int
}

// balance reads brackets line by line, leaving out strings and comments. At the
// end of each line it calls f with the brackets that are open there.
func balance(lines []string, python bool, f func(line int, stack []open)) []open {
	var stack []open
	quote := ""
	for n, line := range lines {
		for i := 0; i < len(line); i++ {
			c := line[i]
			switch {
			case quote != "":
				if c == '\\' {
					i++
				} else if strings.HasPrefix(line[i:], quote) {
					i += len(quote) - 1
					quote = ""
				}
			case python && c == '#', !python && strings.HasPrefix(line[i:], "//"):
				i = len(line)
			case python && (strings.HasPrefix(line[i:], `"""`) || strings.HasPrefix(line[i:], "'''")):
				quote = line[i : i+3]
				i += 2
			case c == '"' || c == '\'' || !python && c == '`':
				quote = string(c)
			case closers[c] != 0:
				stack = append(stack, open{c, n})
			case c == ')' || c == ']' || c == '}':
				if len(stack) > 0 && closers[stack[len(stack)-1].c] == c {
					stack = stack[:len(stack)-1]
				}
			}
		}
		if len(quote) == 1 && quote != "`" {
			quote = ""
		}
		if f != nil {
			f(n, stack)
		}
	}
	return stack
}

// missingOn returns the closers that line n lacks by itself.
func missingOn(lines []string, n int, python bool) string {
	left := balance(lines[n:n+1], python, nil)
	out := ""
	for i := len(left) - 1; i >= 0; i-- {
		if left[i].c == '{' && !python {
			break // a block goes on below
		}
		out += string(closers[left[i].c])
	}
	return out
}

// closeLine puts closers at the end of a line: before the colon or brace that
// begins a block, a semicolon, a comma, or a comment. A brace that is a literal
// of an argument stays where it is.
func closeLine(line, closing string) []string {
	t := strings.TrimRight(line, " \t")
	for _, end := range []string{" {", ":", ";", ","} {
		if body, ok := strings.CutSuffix(t, end); ok {
			return []string{body + closing + end, t + closing}
		}
	}
	return []string{t + closing}
}
