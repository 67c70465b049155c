package git

import (
	"context"
	"strings"

	"hortus.dev/api"
)

// maxRef is the maximum length of the name of a branch, tag or commit, in bytes.
const maxRef = 512

// CheckRevision accepts only plain names. KindInvalid for revisions such as main~3,
// main@{1} or :/text, for options, and for invalid names of refs.
func CheckRevision(ref string) error {
	bad := func(why string) error {
		return api.Errorf(api.KindInvalid, "%q is not the name of a branch, a tag or a commit: %s", Sanitize(ref, 200), why)
	}
	switch {
	case ref == "":
		return bad("it is empty")
	case len(ref) > maxRef:
		return bad("too long")
	case ref[0] == '-':
		return bad("it begins with -")
	case ref == "@", ref == "HEAD":
		return bad("it is ambiguous: it differs between repositories")
	case strings.Contains(ref, ".."), strings.Contains(ref, "@{"), strings.Contains(ref, "//"):
		return bad("it contains .., @{ or //")
	case strings.HasPrefix(ref, "/"), strings.HasSuffix(ref, "/"), strings.HasSuffix(ref, "."):
		return bad("it begins or ends with /, or ends with a dot")
	}
	for i := 0; i < len(ref); i++ {
		if c := ref[i]; c <= ' ' || c == 0x7f || strings.IndexByte("~^:?*[\\", c) >= 0 {
			return bad("it contains a space, a control character or one of ~^:?*[\\")
		}
	}
	if Sanitize(ref, maxRef) != ref {
		return bad("it contains a control character or is not UTF-8")
	}
	for _, part := range strings.Split(ref, "/") {
		if part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return bad("a component begins with a dot or ends with .lock")
		}
	}
	return nil
}

// CheckBranch returns KindInvalid for a name that git does not accept for a branch.
func (p *Program) CheckBranch(ctx context.Context, name string) error {
	if err := CheckRevision(name); err != nil {
		return err
	}
	if strings.HasPrefix(name, "refs/") {
		return api.Errorf(api.KindInvalid, "%q: give the name of a branch without refs/", name)
	}
	ok, err := p.Try(ctx, Call{Args: []string{"check-ref-format", "refs/heads/" + name}})
	if err == nil && !ok {
		err = api.Errorf(api.KindInvalid, "%q is not a valid name for a branch", name)
	}
	return err
}

// IsHash reports whether s is a full object name.
func IsHash(s string) bool { return (len(s) == 40 || len(s) == 64) && IsHex(s) }

func IsHex(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'f') }) < 0
}

func CheckHash(what, s string) error {
	if !IsHash(s) {
		return api.Errorf(api.KindInvalid, "%s: %q is not the full name of a commit", what, Sanitize(s, 100))
	}
	return nil
}
