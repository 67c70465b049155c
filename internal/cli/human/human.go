package human

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Prefixed puts a head before a text, unless the text is empty.
func Prefixed(head, text string) string {
	if text == "" {
		return ""
	}
	return head + text
}

// List joins the first few names of a list.
func List(paths []string) string {
	const most = 5
	if len(paths) > most {
		return Sanitize(strings.Join(paths[:most], ", ")) + fmt.Sprintf(" and %d more", len(paths)-most)
	}
	return Sanitize(strings.Join(paths, ", "))
}

// Count writes a number with its noun, or nothing for 0.
func Count(n int, noun string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// JoinNonEmpty joins what is not empty.
func JoinNonEmpty(head string, list ...string) string {
	list = slices.DeleteFunc(list, func(s string) bool { return s == "" })
	if len(list) == 0 {
		return ""
	}
	return head + strings.Join(list, ", ")
}

// Host joins a host with a port, unless that is 0, 80 or 443, which are the ports of a rule
// without any.
func Host(host string, port int) string {
	if port == 0 || port == 80 || port == 443 {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// LastLines returns the lines of a text, each made harmless, the last most of
// them.
func LastLines(s string, most int) []string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if len(lines) > most {
		lines = append([]string{"..."}, lines[len(lines)-most:]...)
	}
	out := make([]string, 0, len(lines))
	for _, l := range lines {
		out = append(out, Sanitize(strings.TrimRight(l, "\r")))
	}
	return out
}

// ErrorLine returns the last line of an error output that says something. Where a
// trace ends with the version of the interpreter, the error is the last line that
// names one.
func ErrorLine(s string) string {
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

// FirstLine returns the first line that says something.
func FirstLine(s string) string {
	for l := range strings.Lines(s) {
		if l = strings.TrimSpace(l); l != "" {
			return l
		}
	}
	return ""
}

// maxLine bounds one line that is shown of a text from elsewhere, in runes.
const maxLine = 500

// maxAnswer is the same for a diagnosis.
const maxAnswer = 4000

// Sanitize makes a text harmless for a terminal and a log: what could move the
// cursor, change colours, reorder or hide text is shown as an escape, and so are
// line breaks. The result is one line of printable characters.
func Sanitize(s string) string { return SanitizeTo(s, maxLine, " ") }

// SanitizeAnswer is Sanitize with the bound of a diagnosis or a question, whose end says what to do.
func SanitizeAnswer(s string) string { return SanitizeTo(s, maxAnswer, " ") }

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

// Milliseconds writes a number of milliseconds for people.
func Milliseconds(ms int64) string { return Duration(time.Duration(ms) * time.Millisecond) }

// Size writes a size for people.
func Size(n int64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if one := int64(1) << (30 - 10*i); n >= one {
			return strings.TrimSuffix(strconv.FormatFloat(float64(n)/float64(one), 'f', 1, 64), ".0") + " " + unit
		}
	}
	return strconv.FormatInt(n, 10) + " B"
}

// Duration writes a duration for people, with three digits at most.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
