package policy

// PlainPath decodes the path of a request as it was sent. It returns false for a path that
// servers may understand in different ways (see the package's documentation).
func PlainPath(p string) (string, bool) { return plainPath(p) }

// Match reports whether a text matches a pattern, in which "*" is any text without "/" and "**"
// any text. It subtracts what it needs from steps, and returns false if they are used up.
func Match(pattern, text string, steps *int) bool {
	return matchPath(pattern, text, steps) && *steps >= 0
}
