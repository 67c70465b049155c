package api

import (
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// FilePolicy decides which files of a repository an agent may read and which it may change.
// Each list has globs. Without a slash a glob matches a name at any depth ("*.key"); with one it
// matches a path from the root of the repository ("deploy/*.yaml", "/Makefile"). "*" and "?" stop
// at a slash, "**" matches any number of directories, "[a-z]" one character. A glob that matches a
// directory matches everything in it; one that ends with a slash matches only directories. A glob
// that begins with "!" is an exception. The last glob of a list that matches decides. Globs are
// case-sensitive.
//
// OffLimits decides before ReadOnly, and ReadOnly before Writable.
type FilePolicy struct {
	// OffLimits are files that no sandbox of the task has. They stay in the repository, and
	// what the task delivers has them unchanged. They follow the list of the daemon
	// (policy.off-limits).
	OffLimits []string `json:"offLimits,omitempty"`
	// ReadOnly are files that the agent can read but not change.
	ReadOnly []string `json:"readOnly,omitempty"`
	// Writable, if it is not empty, are the only files that the agent can change.
	Writable []string `json:"writable,omitempty"`
}

// Bounds on a file policy.
const (
	// MaxFileGlobs is the number of globs of one list, MaxFileGlob the size of one in bytes.
	MaxFileGlobs = 200
	MaxFileGlob  = 512
)

// DefaultOffLimits returns the globs that are off limits if nobody sets others: files that
// contain secrets by their name. Directories named testdata are excluded, because the keys of
// tests are no secrets.
func DefaultOffLimits() []string {
	return []string{
		".env*", "!.env.example", "!.env.sample", "!.env.template",
		"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "*.key", "*.p12", "*.pfx", ".netrc",
		"!testdata/",
	}
}

// IsZero reports whether the policy has no globs.
func (p FilePolicy) IsZero() bool {
	return len(p.OffLimits) == 0 && len(p.ReadOnly) == 0 && len(p.Writable) == 0
}

// CheckBounds refuses a policy with too many globs: KindInvalid.
func (p FilePolicy) CheckBounds() error {
	for name, globs := range p.lists {
		if len(globs) > MaxFileGlobs {
			return Errorf(KindInvalid, "%s has %d globs; the maximum is %d", name, len(globs), MaxFileGlobs).
				WithHint("join globs with * or **")
		}
	}
	return nil
}

// Check refuses a policy with a malformed glob: KindInvalid.
func (p FilePolicy) Check() error {
	for name, globs := range p.lists {
		for _, g := range globs {
			if err := CheckFileGlob(g); err != nil {
				return Errorf(KindInvalid, "%s: %w", name, err).WithHint("%s", HintOf(err))
			}
		}
	}
	if len(p.Writable) > 0 && !slices.ContainsFunc(p.Writable, func(g string) bool { return !strings.HasPrefix(g, "!") }) {
		return Errorf(KindInvalid, "writable has only exceptions, so nothing would be writable").WithHint("add the files that may change")
	}
	return nil
}

// lists calls yield with each list and its name.
func (p FilePolicy) lists(yield func(name string, globs []string) bool) {
	_ = yield("offLimits", p.OffLimits) && yield("readOnly", p.ReadOnly) && yield("writable", p.Writable)
}

// CheckFileGlob refuses a malformed glob: KindInvalid.
func CheckFileGlob(glob string) error {
	bad := func(why, hint string) error {
		return Errorf(KindInvalid, "glob %.100q: %s", glob, why).WithHint("%s", hint)
	}
	g := strings.TrimPrefix(glob, "!")
	body := strings.TrimSuffix(strings.TrimPrefix(g, "/"), "/")
	switch {
	case len(glob) > MaxFileGlob:
		return bad("it is longer than 512 bytes", "use * or ** for the part that varies")
	case body == "":
		return bad("it is empty", `for example "*.key" or "deploy/**"`)
	case !utf8.ValidString(glob) || strings.ContainsFunc(glob, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return bad("it is not UTF-8 text, or has a control character", "use ? for such a character")
	}
	for part := range strings.SplitSeq(body, "/") {
		switch {
		case part == "":
			return bad("it has two slashes in a row", "use one")
		case part == "." || part == "..":
			return bad("it has a component . or ..", "write the path from the root of the repository")
		case part != "**" && strings.Contains(part, "**"):
			return bad("** is not a whole component", "write **/*.key for a name at any depth, or just *.key")
		}
		if _, err := path.Match(part, ""); err != nil {
			return bad("it has an unfinished [ or \\", `write \[ for the character itself`)
		}
	}
	return nil
}
