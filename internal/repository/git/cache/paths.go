package cache

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxPath is the maximum length of a path, in bytes.
const maxPath = 4096

// badPath returns why a path may not be committed, or "". A commit may be checked out on
// any system, so a path that only one of them takes for .git is refused too.
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
		return "the path contains a backslash, which separates components on Windows"
	case len(p) >= 2 && p[1] == ':' && (p[0]|0x20) >= 'a' && (p[0]|0x20) <= 'z':
		return "the path begins with a Windows drive letter"
	}
	for _, r := range p {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r) && !joiner(r) {
			return "the path contains a control character"
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
			return "a component of the path is .git, or equivalent to it on some system"
		}
	}
	return ""
}

// joiner reports whether languages and emoji need a character inside of words.
func joiner(r rune) bool { return r == '\u200c' || r == '\u200d' || r == '\u200e' || r == '\u200f' }

// isDotGit reports whether some system would open .git for this name.
func isDotGit(name string) bool {
	// HFS+ ignores these anywhere.
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= '\u200c' && r <= '\u200f', r >= '\u202a' && r <= '\u202e', r >= '\u206a' && r <= '\u206f', r == '\ufeff':
			return -1
		}
		return r
	}, name)
	// NTFS: a colon separates the name of a stream; trailing spaces and dots are
	// ignored.
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

// badTarget returns why a link at path may not point at target, or "". The target's ".."
// components must come first and may not exceed the link's depth. Then they stay in the
// tree, since the link's own path has real directories only. via returns the target of a
// link of the tree.
func badTarget(path, target string, via func(path string) (string, bool)) string {
	switch {
	case target == "":
		return "the link points at nothing"
	case len(target) > maxPath:
		return "the target of the link is longer than 4096 bytes"
	case strings.ContainsAny(target, "\x00\n\r"):
		return "the target of the link contains a control character"
	case target[0] == '/' || target[0] == '\\' || len(target) >= 2 && target[1] == ':':
		return "the link is absolute"
	}
	return follow(path, target, via, 40)
}

func follow(path, target string, via func(string) (string, bool), depth int) string {
	if depth == 0 {
		return "the link leads through too many other links"
	}
	if target == "" || target[0] == '/' {
		return "the link leads through an absolute link"
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
				// The target of that link was checked, and the remaining components only
				// go down.
			}
			at = append(at[:len(at):len(at)], step)
		}
	}
	return ""
}
