package githttp

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"hortus.dev/api/secrets"
	"hortus.dev/internal/egress/policy"
)

// The services of smart HTTP.
const (
	uploadPack  = "git-upload-pack"  // clone and fetch
	receivePack = "git-receive-pack" // push
)

func requestType(service string) string { return "application/x-" + service + "-request" }
func resultType(service string) string  { return "application/x-" + service + "-result" }

// limits are the bounds on one request.
type limits struct {
	window   int   // of a body that is checked while it is read, in bytes
	prefetch int   // what is checked before anything is sent
	upload   int64 // of the body of a fetch, decoded
	list     int   // of the commands of a push, in bytes
	commands int   // their number
	drain    int64 // what is read of a push that was refused
	gzip     int64 // bytes that one byte of a compressed body may become

	pack pack
}

// pack are the bounds on a pack.
type pack struct {
	objects  uint32
	inflated int64 // bytes in all
	ratio    int64 // inflated bytes for one byte of the pack, apart from free
	free     int64
	commit   int64 // size of a commit that is read
	cache    int64 // size of the commits that are kept as bases of deltas
	commits  int   // number of the commits whose parents are noted
	parents  int   // number of the parents in all
	walk     int   // commits that are visited to find the old values
}

// bounds are those of Check.
func bounds() limits {
	return limits{
		window: 512 << 10, prefetch: 256 << 10, upload: 64 << 20,
		list: 1 << 20, commands: 1000, drain: 16 << 20, gzip: 100,
		pack: pack{
			objects: 20_000_000, inflated: 64 << 30, ratio: 200, free: 256 << 20,
			commit: 1 << 20, cache: 16 << 20, commits: 250_000, parents: 1_000_000, walk: 5_000_000,
		},
	}
}

// Check decides about a request of a client. The returned request is what may be sent: its path
// is written anew, and its body is checked while it is read. Of a push, the commands were
// checked already.
//
// An error of Check, or of the returned request's body, is a *Refusal if the rule or the protocol
// is the reason. Another error is one of the client's connection.
func Check(rule secrets.Git, r *http.Request) (*http.Request, error) {
	return check(rule, r, bounds())
}

func check(rule secrets.Git, r *http.Request, l limits) (*http.Request, error) {
	service, list, path, refused := route(rule, r)
	if refused != nil {
		return nil, refused
	}
	if refused := checkHeader(rule, r, service, list); refused != nil {
		return nil, refused
	}
	switch {
	case service == uploadPack && !rule.Fetch:
		return nil, refuse(rule, "the repository %s may not be fetched", repository(rule))
	case service == receivePack && len(rule.Push) == 0:
		return nil, refuse(rule, "nothing may be pushed to the repository %s", repository(rule))
	}
	out := r.Clone(r.Context())
	out.URL.Path, out.URL.RawPath = path, ""
	out.GetBody = nil
	if list {
		out.Body, out.ContentLength = http.NoBody, 0
		out.Header.Del("Content-Type")
		return out, nil
	}
	var in io.Reader = r.Body
	if r.Header.Get("Content-Encoding") != "" {
		in = &inflater{in: counter{r: r.Body}, ratio: l.gzip}
		out.ContentLength = -1
		out.Header.Del("Content-Encoding")
		out.Header.Del("Content-Length")
	}
	b := newBody(in, l.window+l.list+l.prefetch, r.Body)
	if service == uploadPack {
		b.step = (&fetch{rule: rule, src: b.src, v2: version(r) == "2", max: l.upload}).step
	} else {
		b.step = (&push{rule: rule, src: b.src, limits: l}).step
	}
	// The list of a push is one step, so it is complete before anything is sent.
	if err := b.prefetch(l.prefetch); err != nil {
		var refused *Refusal
		if errors.As(err, &refused) && refused.push != nil {
			// Git reads the report only after it has sent the pack.
			_, _ = io.CopyN(io.Discard, in, l.drain)
		}
		return nil, err
	}
	out.Body = b
	if n := b.whole(); n >= 0 {
		out.ContentLength = n
		out.TransferEncoding = nil
	}
	return out, nil
}

// repository returns the path of a rule's repository without the suffix.
func repository(rule secrets.Git) string {
	return strings.TrimSuffix(strings.TrimSuffix(rule.Repository, "/"), ".git")
}

// route returns what a request asks of the repository, and its path, decoded.
func route(rule secrets.Git, r *http.Request) (service string, list bool, path string, refused *Refusal) {
	path, ok := policy.PlainPath(r.URL.EscapedPath())
	if !ok {
		return "", false, "", refuse(rule, "servers may understand the path %.200q in different ways", r.URL.EscapedPath())
	}
	repo := repository(rule)
	rest, ok := strings.CutPrefix(path, repo)
	if !ok || repo == "" {
		return "", false, "", refuse(rule, "%.200q is not a path of the repository %s", path, repo)
	}
	rest = strings.TrimPrefix(rest, ".git")
	query := r.URL.RawQuery
	if r.URL.ForceQuery {
		query = "?"
	}
	switch method := r.Method; {
	case rest == "/info/refs":
		if method != http.MethodGet {
			return "", false, "", refuse(rule, "the refs are listed with GET, not %.20q", method)
		}
		switch query {
		case "service=" + uploadPack, "service=" + receivePack:
			return strings.TrimPrefix(query, "service="), true, path, nil
		}
		return "", false, "", refuse(rule, "the refs are listed with ?service=%s or ?service=%s, and no other parameter", uploadPack, receivePack)
	case rest == "/"+uploadPack || rest == "/"+receivePack:
		if method != http.MethodPost {
			return "", false, "", refuse(rule, "%s is called with POST, not %.20q", rest[1:], method)
		}
		if query != "" {
			return "", false, "", refuse(rule, "%s has no parameters", rest[1:])
		}
		return rest[1:], false, path, nil
	case strings.HasPrefix(rest, "/"):
		return "", false, "", refuse(rule, "%.200q is no request of git's smart HTTP protocol", path)
	}
	return "", false, "", refuse(rule, "%.200q is not a path of the repository %s", path, repo)
}

// checkHeader checks the headers that say how a body is read.
func checkHeader(rule secrets.Git, r *http.Request, service string, list bool) *Refusal {
	if what := policy.Override(r.Header, ""); what != "" {
		return refuse(rule, "%s changes the request for some servers", what)
	}
	for _, name := range []string{"Upgrade", "Content-Range", "Range", "Trailer"} {
		if _, ok := r.Header[name]; ok {
			return refuse(rule, "the header %s has no use in git's protocol", name)
		}
	}
	if v, ok := r.Header["Git-Protocol"]; ok && (len(v) != 1 || v[0] != "version=0" && v[0] != "version=1" && v[0] != "version=2") {
		return refuse(rule, "the header Git-Protocol is %.80q; it can be version=0, version=1 or version=2", v)
	}
	types, encodings := r.Header["Content-Type"], r.Header["Content-Encoding"]
	if list {
		if r.ContentLength != 0 || len(encodings) > 0 {
			return refuse(rule, "a request for the list of refs has no body")
		}
		return nil
	}
	switch {
	case len(r.Trailer) > 0:
		return refuse(rule, "trailers have no use in git's protocol")
	case r.Body == nil:
		return refuse(rule, "the body is missing")
	case len(types) != 1 || types[0] != requestType(service):
		return refuse(rule, "the Content-Type is %.80q, not %s", types, requestType(service))
	case len(encodings) > 1 || len(encodings) == 1 && encodings[0] != "gzip" && encodings[0] != "x-gzip":
		return refuse(rule, "the Content-Encoding is %.80q; it can be gzip", encodings)
	}
	return nil
}

// version returns the version of the protocol that the client asks for.
func version(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Git-Protocol"), "version=")
}
