package localfile

import (
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ValidPath reports whether a path from elsewhere lies inside a directory and can be
// shown on a terminal.
func ValidPath(name string) bool {
	return len(name) <= 4096 && name != "." && filepath.IsLocal(name) && utf8.ValidString(name) && !strings.ContainsFunc(name, misleads)
}

// NameProblem returns why a name that a sandbox gave cannot be that of a file here; "" if it can.
func NameProblem(name string) string {
	switch {
	case !utf8.ValidString(name):
		return "the name is not valid UTF-8"
	case strings.ContainsFunc(name, misleads):
		return "the name has control characters"
	case !ValidPath(name) || strings.ContainsAny(name, `/\`):
		return "the name cannot be kept here"
	}
	return ""
}

// misleads reports whether a character controls a terminal or the direction of text.
// The joiners and marks inside words of some languages do not.
func misleads(r rune) bool {
	return unicode.IsControl(r) || r >= '\u2028' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}
