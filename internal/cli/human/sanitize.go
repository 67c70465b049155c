package human

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxLine bounds one line that is shown of a text from elsewhere, in runes.
const maxLine = 500

// Sanitize makes a text harmless for a terminal and a log: what could move the
// cursor, change colours, reorder or hide text is shown as an escape, and so are
// line breaks. The result is one line of printable characters.
func Sanitize(s string) string { return SanitizeTo(s, maxLine, " ") }

// SanitizeTo is clean with another bound, in runes, and another text for a tab.
func SanitizeTo(s string, most int, tab string) string {
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

// Truncate shortens a text to a number of characters and makes it harmless.
func Truncate(s string, most int) string {
	if r := []rune(Sanitize(s)); len(r) > most {
		return string(r[:most-3]) + "..."
	}
	return Sanitize(s)
}
