package registrycache

import (
	"encoding/hex"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// artifact is an immutable file of a registry.
type artifact struct {
	// digest is the BLAKE2b-256 of the file if its path contains it, or nil.
	digest []byte
}

// artifactOf recognizes the artifact that a request is for.
func artifactOf(u *url.URL) (a artifact, ok bool) {
	p := u.EscapedPath()
	if !strings.Contains(p, "/-/") && !strings.Contains(p, "/@v/") && !strings.Contains(p, "/packages/") && !strings.Contains(p, "/pool/") {
		return a, false // most requests
	}
	if path.Clean(p) != p || strings.Contains(strings.ToLower(p), "%2e") {
		return a, false
	}
	dir, file := path.Split(p)
	switch {
	case strings.HasSuffix(dir, "/-/") && strings.HasSuffix(file, ".tgz"): // npm
		return a, u.Scheme == "https"
	case strings.HasSuffix(dir, "/@v/"): // a Go module proxy
		version, _ := cutAnySuffix(file, ".zip", ".mod", ".info")
		return a, u.Scheme == "https" && isVersion(version)
	case strings.Contains(dir, "/packages/") && file != "": // PyPI
		a.digest = digestOf(dir[strings.LastIndex(dir, "/packages/")+len("/packages/"):])
		return a, u.Scheme == "https" && a.digest != nil
	case strings.Contains(dir, "/pool/") && strings.HasSuffix(file, ".deb"): // apt checks it, also without TLS
		return a, u.Scheme == "https" || u.Scheme == "http"
	}
	return a, false
}

func cutAnySuffix(s string, suffixes ...string) (string, bool) {
	for _, suffix := range suffixes {
		if before, ok := strings.CutSuffix(s, suffix); ok {
			return before, true
		}
	}
	return "", false
}

// isVersion reports whether a name in a Go module proxy is that of a version, not of a branch.
func isVersion(s string) bool {
	if !strings.HasPrefix(s, "v") || strings.Count(s, ".") < 2 {
		return false
	}
	for i, part := range strings.SplitN(s[1:], ".", 3) {
		if i == 2 {
			part, _, _ = strings.Cut(part, "-")
			part, _, _ = strings.Cut(part, "+")
		}
		if part == "" || strings.Trim(part, "0123456789") != "" {
			return false
		}
	}
	return true
}

// digestOf reads the digest in "ab/cd/ef01.../".
func digestOf(dir string) []byte {
	parts := strings.Split(strings.TrimSuffix(dir, "/"), "/")
	if len(parts) != 3 || len(parts[0]) != 2 || len(parts[1]) != 2 || len(parts[2]) != 60 {
		return nil
	}
	b, err := hex.DecodeString(strings.Join(parts, ""))
	if err != nil {
		return nil
	}
	return b
}

// isPlain reports whether an answer to a request with a header may be kept: one that programs
// send with every request, or one of npm that logs nobody in. Everything else may be a credential,
// ask for something else than the whole file, or make a server answer in a way that another request
// would not get.
func isPlain(name string) bool {
	switch name {
	case "Accept", "Accept-Encoding", "Accept-Language", "Connection", "Keep-Alive", "Referer", "Sec-Fetch-Mode", "Te", "User-Agent",
		"Npm-Auth-Type", "Npm-Command", "Npm-In-Ci", "Npm-Scope", "Npm-Session",
		"Pacote-Integrity", "Pacote-Pkg-Id", "Pacote-Req-Type", "Pacote-Version":
		return true
	}
	return false
}

// anonymous reports whether a request is a plain one for a whole file.
func anonymous(r *http.Request) bool {
	if r.Body != nil && r.Body != http.NoBody || r.ContentLength != 0 || len(r.Trailer) > 0 {
		return false
	}
	if r.URL.User != nil || r.URL.RawQuery != "" || r.URL.ForceQuery || r.URL.Host == "" {
		return false
	}
	if r.Host != "" && hostOf(r.Host, r.URL.Scheme) != hostOf(r.URL.Host, r.URL.Scheme) {
		return false
	}
	for name := range r.Header {
		if !isPlain(name) {
			return false
		}
	}
	return true
}

// hostOf returns a host in lower case, without the port if it is that of the scheme.
func hostOf(host, scheme string) string {
	port := ":80"
	if scheme == "https" {
		port = ":443"
	}
	return strings.ToLower(strings.TrimSuffix(host, port))
}

// storable reports whether a response is a whole file that may be stored.
func storable(resp *http.Response) bool {
	h := resp.Header
	if strings.HasPrefix(h.Get("Content-Type"), "text/html") { // a page that says something, for example that one should log in
		return false
	}
	if resp.StatusCode != http.StatusOK || resp.Uncompressed || h.Get("Content-Encoding") != "" || h.Get("Set-Cookie") != "" || h.Get("Content-Range") != "" {
		return false
	}
	for _, value := range h.Values("Cache-Control") {
		for word := range strings.SplitSeq(strings.ToLower(value), ",") {
			value := strings.TrimSpace(word)
			word, _, _ = strings.Cut(value, "=")
			if value == "max-age=0" || word == "no-store" || word == "private" || word == "no-cache" {
				return false
			}
		}
	}
	for _, value := range h.Values("Vary") {
		for word := range strings.SplitSeq(strings.ToLower(value), ",") {
			// A stored file has no encoding, and no request of it has an Origin. What is for one
			// program or one type may not be for another.
			switch strings.TrimSpace(word) {
			case "", "accept-encoding", "origin":
			default:
				return false
			}
		}
	}
	return resp.ContentLength > 0 // without one, how much space it needs is unknown
}
