package policy

import (
	"strings"

	"hortus.dev/api"
)

const (
	// maxPath is the maximum size of a request's path that rules with paths are matched with,
	// in bytes; a longer one is refused.
	maxPath = 4 << 10
	// maxSteps is the maximum number of comparisons of a byte for one request, some
	// milliseconds. Ordinary paths need some thousands; a request that needs more is refused.
	maxSteps = 1 << 20
	// maxPattern is the maximum size of a path of a rule, maxPathText of those of a policy.
	maxPattern  = 1 << 10
	maxPathText = 256 << 10
	// maxStars is the maximum number of wildcards in a path of a rule.
	maxStars = 16
	// maxPaths is the maximum number of paths of a rule.
	maxPaths = 256
)

// plainPath decodes the path of a request as it was sent, without its query. It returns false
// for a path that servers may understand in different ways, because the rule that matched it
// could be another one than the rule for what is served:
//
//   - "//", "." and ".." as segments, in clear or encoded, and segments that end in a dot or a
//     space: servers remove or resolve them, or do not
//   - "%2F", "%5C" and "\": some servers split there
//   - "%25": it is decoded twice by a proxy and a server that both decode
//   - ";": some servers remove it with what follows, then resolve ".."
//   - "%3F" and "%23": what follows is no path to a server that decodes first
//   - NUL, control characters, and what is not ASCII: strings end there, or are converted
//   - a "%" without two hexadecimal digits
//
// Anything else decodes to one text: "/%61" is "/a", for a rule that denies "/a" too.
func plainPath(p string) (string, bool) {
	if len(p) > maxPath || p == "" || p[0] != '/' || strings.IndexByte(p, ' ') >= 0 {
		return "", false
	}
	if strings.IndexByte(p, '%') >= 0 {
		var ok bool
		if p, ok = decode(p); !ok {
			return "", false
		}
	}
	return p, plainText(p) == ""
}

// decode decodes a path, except for what must not be encoded in it.
func decode(p string) (string, bool) {
	b := make([]byte, 0, len(p))
	for i := 0; i < len(p); i++ {
		c := p[i]
		if c == '%' {
			if i+2 >= len(p) {
				return "", false
			}
			hi, okHi := unhex(p[i+1])
			lo, okLo := unhex(p[i+2])
			if !okHi || !okLo {
				return "", false
			}
			c, i = hi<<4|lo, i+2
			if c == '/' || c == '.' {
				return "", false
			}
		}
		b = append(b, c)
	}
	return string(b), true
}

func unhex(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// plainText returns what is ambiguous in a decoded path, or "".
func plainText(p string) string {
	start := 1
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case c < 0x20 || c >= 0x7f:
			return "a character that is not printable ASCII"
		case c == '\\' || c == ';' || c == '%' || c == '?' || c == '#':
			return "one of \\ ; % ? #"
		}
		if i > 0 && (p[i] == '/' || i == len(p)-1) {
			end := i
			if p[i] != '/' {
				end++
			}
			switch segment := p[start:end]; {
			case segment == "" && p[i] == '/':
				return "an empty segment (//)"
			case strings.HasSuffix(segment, ".") || strings.HasSuffix(segment, " "):
				return "a segment that ends in a dot or a space"
			}
			start = i + 1
		}
	}
	return ""
}

// checkPattern validates a path of a rule, which is written decoded.
func checkPattern(p string) error {
	switch {
	case len(p) > maxPattern:
		return api.Errorf(api.KindInvalid, "the path %.60q... has %d bytes, the maximum is %d", p, len(p), maxPattern)
	case !strings.HasPrefix(p, "/"):
		return api.Errorf(api.KindInvalid, "the path %.60q does not begin with /", p)
	case strings.Contains(p, "***"):
		return api.Errorf(api.KindInvalid, "the path %.60q has three wildcards in sequence", p).
			WithHint("* is any text without /, ** is any text.")
	case strings.Count(p, "*")-strings.Count(p, "**") > maxStars:
		return api.Errorf(api.KindInvalid, "the path %.60q has more than %d wildcards", p, maxStars)
	}
	if what := plainText(p); what != "" {
		return api.Errorf(api.KindInvalid, "the path %.60q has %s: it would never match", p, what).
			WithHint("A request with such a path is refused if a rule for its host has paths.")
	}
	return nil
}

// matchPath reports whether a path matches a pattern, in which "*" is any text without "/" and
// "**" any text. After a mismatch only the last "*" and the last "**" are tried again, with one
// byte more: an earlier wildcard of the same kind could only reach less of the path. So the
// number of steps is at most the product of the sizes. They are subtracted from steps; the
// result has no meaning if steps is below 0 then.
func matchPath(pattern, path string, steps *int) bool {
	p, s := 0, 0
	star, starAt := -1, 0 // pattern behind the last "*", and where the path resumes
	deep, deepAt := -1, 0 // the same of the last "**"
	for ; *steps >= 0; *steps-- {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			if strings.HasPrefix(pattern[p:], "**") {
				p += 2
				deep, deepAt, star = p, s, -1
			} else {
				p++
				star, starAt = p, s
			}
			if p == len(pattern) && star < 0 {
				return true // it ends in "**"
			}
			continue
		case p < len(pattern) && s < len(path) && pattern[p] == path[s]:
			p, s = p+1, s+1
			continue
		case p == len(pattern) && s == len(path):
			return true
		}
		switch {
		case star >= 0 && starAt < len(path) && path[starAt] != '/':
			starAt++
			p, s = star, starAt
		case deep >= 0 && deepAt < len(path):
			deepAt++
			p, s, star = deep, deepAt, -1
		default:
			return false
		}
	}
	return false
}
