package human

import (
	"strings"
)

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
