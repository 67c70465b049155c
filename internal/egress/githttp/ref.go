package githttp

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"hortus.dev/internal/egress/policy"
)

// maxRef is the maximum length of the name of a ref, in bytes.
const maxRef = 512

// badRef returns what is wrong with the full name of a ref, or "".
func badRef(ref string) string {
	switch {
	case len(ref) > maxRef:
		return "it is too long"
	case !utf8.ValidString(ref):
		return "it is not UTF-8"
	case !strings.HasPrefix(ref, "refs/") || strings.Count(ref, "/") < 2:
		return "it does not begin with refs/ and a folder, such as refs/heads/"
	case strings.Contains(ref, "..") || strings.Contains(ref, "@{"):
		return "it contains .. or @{"
	case strings.HasSuffix(ref, "."):
		return "it ends with a dot"
	}
	for _, c := range ref {
		if c <= ' ' || strings.ContainsRune("~^:?*[\\\x7f", c) || !unicode.IsPrint(c) {
			return "it contains a space, a character that is not printable or one of ~^:?*[\\"
		}
	}
	for part := range strings.SplitSeq(ref, "/") {
		switch {
		case part == "":
			return "it has an empty component"
		case part[0] == '.' || strings.HasSuffix(part, ".lock"):
			return "a component begins with a dot or ends with .lock"
		}
	}
	return ""
}

// matches reports whether a ref matches one of the patterns. It uses up steps, which bound the
// work for one request.
func matches(patterns []string, ref string, steps *int) bool {
	for _, p := range patterns {
		if policy.Match(p, ref, steps) {
			return true
		}
	}
	return false
}
