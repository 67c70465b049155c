package cache

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxPath bounds the path of a file, in bytes.
const maxPath = 4096

// badPath says why a path may not be committed, or "". It must hold on every system
// that a commit is checked out on, so what only one of them takes for .git is
// refused as well.
func badPath(p string) string {
	switch {
	case p == "":
		return "the path is empty"
	case len(p) > maxPath:
		return "the path is longer than 4096 bytes"
	case !utf8.ValidString(p):
		return "the path is not UTF-8"
	case p[0] == '/':
		return "the path is absolute"
	case strings.Contains(p, "\\"):
		return "the path holds a backslash, which divides paths on Windows"
	case len(p) >= 2 && p[1] == ':' && (p[0]|0x20) >= 'a' && (p[0]|0x20) <= 'z':
		return "the path begins with a drive of Windows"
	}
	for _, r := range p {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r) && !joiner(r) {
			return "the path holds a control character"
		}
	}
	for _, part := range strings.Split(p, "/") {
		switch {
		case part == "":
			return "a component of the path is empty"
		case part == ".", part == "..":
			return "a component of the path is . or .."
		case len(part) > 255:
			return "a component of the path is longer than 255 bytes"
		case isDotGit(part):
			return "a component of the path is .git, or what some system takes for it"
		}
	}
	return ""
}

// joiner is what languages and emoji need inside of words.
func joiner(r rune) bool { return r == '\u200c' || r == '\u200d' || r == '\u200e' || r == '\u200f' }

// isDotGit says whether a system would open .git when it is asked for this name.
func isDotGit(name string) bool {
	// HFS+ ignores these, wherever they stand.
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= '\u200c' && r <= '\u200f', r >= '\u202a' && r <= '\u202e', r >= '\u206a' && r <= '\u206f', r == '\ufeff':
			return -1
		}
		return r
	}, name)
	// NTFS: what follows a colon is a stream of the file; blanks and dots at the end
	// do not count.
	name, _, _ = strings.Cut(name, ":")
	name = strings.TrimRight(name, " .")
	// Both fold case, HFS+ by Unicode: EqualFold knows the Kelvin sign and its like.
	if strings.EqualFold(name, ".git") {
		return true
	}
	// The short name of .git, whatever number it got.
	rest, ok := cutFold(name, "git~")
	return ok && rest != "" && strings.Trim(rest, "0123456789") == ""
}

func cutFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return "", false
	}
	return s[len(prefix):], true
}

// badTarget says why a link at path may not point at target, or "". The ups of a
// target come first, and are no more than the link is deep: then they end in the
// tree whatever the rest goes through, since a path of a tree leads through real
// directories alone. via says what a link of the tree points at.
func badTarget(path, target string, via func(path string) (string, bool)) string {
	switch {
	case target == "":
		return "the link points at nothing"
	case len(target) > maxPath:
		return "the target of the link is longer than 4096 bytes"
	case strings.ContainsAny(target, "\x00\n\r"):
		return "the target of the link holds a control character"
	case target[0] == '/' || target[0] == '\\' || len(target) >= 2 && target[1] == ':':
		return "the link is absolute"
	}
	return follow(path, target, via, 40)
}

func follow(path, target string, via func(string) (string, bool), depth int) string {
	if depth == 0 {
		return "the link leads through too many links"
	}
	if target == "" || target[0] == '/' {
		return "the link leads through one that is absolute"
	}
	parts := strings.Split(path, "/")
	at := parts[:len(parts)-1]
	down := false
	steps := strings.FieldsFunc(target, func(r rune) bool { return r == '/' || r == '\\' })
	for i, step := range steps {
		switch {
		case step == ".":
		case step == ".." && down:
			return "the target of the link goes up after it went down"
		case step == "..":
			if len(at) == 0 {
				return "the link leads out of the tree"
			}
			at = at[:len(at)-1]
		default:
			down = true
			here := strings.Join(append(at[:len(at):len(at)], step), "/")
			if isDotGit(step) {
				return "the link leads into .git"
			}
			if next, ok := via(here); ok {
				if why := follow(here, next, via, depth-1); why != "" {
					return why
				}
				if i == len(steps)-1 {
					return ""
				}
				// What is below the target of that link was checked with it, and the
				// rest goes down only.
			}
			at = append(at[:len(at):len(at)], step)
		}
	}
	return ""
}
