package checkout

import (
	"net/url"
	"strings"

	"hortus.dev/api"
)

// Source is where a repository is, as it was written.
type Source struct {
	// Path is a directory of this machine, or URL an address of another kind.
	Path, URL string
	// Ref is what stood after the last "@".
	Ref string
}

// ParseSource reads PATH|URL[@ref]. exists says whether there is something at a
// path: one that is there is a path, whatever it looks like.
func ParseSource(text string, exists func(string) bool) (Source, error) {
	bad := func(format string, args ...any) (Source, error) {
		return Source{}, api.Errorf(api.KindInvalid, format, args...).
			WithHint("name a directory, or https://HOST/PATH, ssh://HOST/PATH, USER@HOST:PATH; @REF after it names a branch, a tag or a commit")
	}
	if text == "" || len(text) > 4096 || strings.ContainsFunc(text, func(r rune) bool { return r < 0x20 || r == 0x7f }) || strings.HasPrefix(text, "-") {
		return bad("%.100q names no repository", text)
	}
	if exists(text) {
		return Source{Path: text}, nil
	}
	scheme, rest, isURL := strings.Cut(text, "://")
	scp := !isURL && scpLike(text)
	// An "@" before the path belongs to the address: user@host.
	from := 0
	switch {
	case isURL:
		from = len(scheme) + 3 + max(strings.IndexByte(rest, '/'), 0)
	case scp:
		from = strings.IndexByte(text, ':')
	}
	out := Source{}
	where := text
	if i := strings.LastIndexByte(text[from:], '@'); i >= 0 {
		where, out.Ref = text[:from+i], text[from+i+1:]
		if out.Ref == "" || strings.HasPrefix(out.Ref, "-") {
			return bad("%.100q names no branch, tag or commit after its @", text)
		}
	}
	switch {
	case !isURL && !scp:
		if !exists(where) {
			return bad("there is no directory %.100q", where)
		}
		out.Path = where
	case isURL && strings.EqualFold(scheme, "file"):
		u, err := url.Parse(where)
		if err != nil || u.Host != "" && u.Host != "localhost" || u.Path == "" {
			return bad("%.100q names no file of this machine", where)
		}
		out.URL = where
	case isURL:
		u, err := url.Parse(where)
		if err != nil || u.Host == "" {
			return bad("%.100q is no address", where)
		}
		if s := strings.ToLower(scheme); s != "https" && s != "http" && s != "ssh" {
			return bad("a repository cannot be read over %.20q", scheme)
		}
		if Secret(where) {
			return Source{}, api.Errorf(api.KindInvalid, "the address of the repository holds a password, which would be stored").
				WithHint("leave it out and give the token to Hortus by a variable or a file: docs/configuration.md")
		}
		out.URL = where
	case strings.Contains(where, "::") || strings.ContainsAny(where[:strings.IndexByte(where, ':')], " ;|&$`'\""):
		// git would take what is before two colons for a program to run.
		return bad("%.100q is no address", where)
	default:
		out.URL = where
	}
	return out, nil
}

// Secret says whether an address holds a password or a token.
func Secret(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return false
	}
	_, given := u.User.Password()
	// Over http the name alone may be a token.
	return given || strings.HasPrefix(strings.ToLower(u.Scheme), "http")
}

// WithoutSecret gives an address without its user and password.
func WithoutSecret(address string) string {
	if u, err := url.Parse(address); err == nil && Secret(address) {
		u.User = nil
		return u.String()
	}
	return address
}
