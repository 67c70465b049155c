package artifact

import "strings"

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
