package cli

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxLine bounds one line that is shown of a text from elsewhere, in runes.
const maxLine = 500

// clean makes a text harmless for a terminal and a log: what could move the
// cursor, change colours, reorder or hide text is shown as an escape, and so are
// line breaks. The result is one line of printable characters.
func clean(s string) string { return harmless(s, maxLine, " ") }

// harmless is clean with another bound, in runes, and another text for a tab.
func harmless(s string, most int, tab string) string {
	var b strings.Builder
	n := 0
	for i := 0; i < len(s); n++ {
		if n == most {
			b.WriteString("...")
			break
		}
		r, width := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && width <= 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\t':
			b.WriteString(tab)
		case r == '\n':
			b.WriteString(`\n`)
		case r < 0x80 && (r < 0x20 || r == 0x7f):
			fmt.Fprintf(&b, `\x%02x`, r)
		case !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		i += width
	}
	return b.String()
}

// cleanLines gives the lines of a text, each made harmless, the last most of
// them.
func cleanLines(s string, most int) []string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if len(lines) > most {
		lines = append([]string{"..."}, lines[len(lines)-most:]...)
	}
	out := make([]string, 0, len(lines))
	for _, l := range lines {
		out = append(out, clean(strings.TrimRight(l, "\r")))
	}
	return out
}

// lastLine gives the last line of an error output that says something. Where a
// trace ends with the version of the interpreter, the error is the last line that
// names one.
func lastLine(s string) string {
	lines := strings.Split(s, "\n")
	version := false
	for i := len(lines) - 1; i >= 0; i-- {
		l := strings.TrimSpace(lines[i])
		switch {
		case l == "":
		case strings.HasPrefix(l, "Node.js v"):
			version = true
		case !version || strings.Contains(l, "Error") && !strings.HasPrefix(l, "at "):
			return l
		}
	}
	return ""
}
