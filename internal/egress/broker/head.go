package broker

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"hortus.dev/api/secrets"
)

// hit is a placeholder in the head of a request.
type hit struct {
	text  string // as it was written, decoded
	place place
}

func elsewhere(text, where string) hit { return hit{text, place{other: where}} }

// locate returns the placeholders in the head of a request. It stops after two: a request may
// have one.
func locate(r *http.Request) (hits []hit) {
	add := func(h hit) bool {
		if h.text != "" {
			hits = append(hits, h)
		}
		return len(hits) > 1
	}
	u := r.URL
	if add(elsewhere(find(r.Method), "the method")) ||
		add(elsewhere(first(find(u.Path), find(u.RawPath)), "the path")) ||
		add(elsewhere(first(find(r.Host), find(u.Host)), "the host name")) {
		return hits
	}
	if find(u.RawQuery) != "" {
		parts, _ := splitQuery(u.RawQuery)
		for _, p := range parts {
			if add(elsewhere(find(p.key), "the name of a query parameter")) ||
				add(hit{find(p.value), place{Place: secrets.Place{Kind: secrets.InQuery, Name: unescapeQuery(p.key)}}}) {
				return hits
			}
		}
		if len(hits) == 0 && add(elsewhere(find(u.RawQuery), "the query")) {
			return hits
		}
	}
	for name, values := range r.Header {
		if add(elsewhere(find(name), "the name of a header")) {
			return hits
		}
		for _, v := range values {
			if add(hit{find(v), place{Place: secrets.Place{Kind: secrets.InHeader, Name: name}}}) {
				return hits
			}
			if name != "Authorization" {
				continue
			}
			if user, password, ok := basic(v); ok {
				where := place{Place: secrets.Place{Kind: secrets.InBasic}}
				if add(hit{find(user), where}) || add(hit{find(password), where}) {
					return hits
				}
			}
		}
	}
	for name, values := range r.Trailer {
		if add(elsewhere(find(name), "the name of a trailer")) || add(elsewhere(find(strings.Join(values, "\n")), "a trailer")) {
			return hits
		}
	}
	return hits
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// basic reads basic authentication.
func basic(header string) (user, password string, ok bool) {
	const scheme = "basic "
	if len(header) < len(scheme) || !strings.EqualFold(header[:len(scheme)], scheme) {
		return "", "", false
	}
	text := strings.TrimRight(strings.TrimSpace(header[len(scheme):]), "=")
	text = strings.NewReplacer("-", "+", "_", "/").Replace(text)
	b, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return "", "", false
	}
	user, password, _ = strings.Cut(string(b), ":")
	return user, password, true
}

// parameter is a part of a query as it was sent.
type parameter struct{ key, value string }

// splitQuery returns the parts of a query. assigned tells for each whether it has "=".
func splitQuery(raw string) (parts []parameter, assigned []bool) {
	for part := range strings.SplitSeq(raw, "&") {
		k, v, ok := strings.Cut(part, "=")
		parts, assigned = append(parts, parameter{k, v}), append(assigned, ok)
	}
	return parts, assigned
}

func unescapeQuery(s string) string {
	if t, err := url.QueryUnescape(s); err == nil {
		return t
	}
	return s
}

// put replaces a placeholder in a request, whose URL and header belong to the caller. It returns
// why it cannot.
func put(r *http.Request, in secrets.Place, placeholder, value string) string {
	switch in.Kind {
	case secrets.InHeader:
		return putHeader(r.Header, http.CanonicalHeaderKey(in.Name), placeholder, value)
	case secrets.InQuery:
		return putQuery(r.URL, in.Name, placeholder, value)
	}
	const name = "Authorization"
	if len(r.Header[name]) != 1 {
		return "the header " + name + " is there more than once"
	}
	user, password, ok := basic(r.Header[name][0])
	switch {
	case !ok:
		return "basic authentication is malformed"
	case password == placeholder && find(user) == "":
		password = value
	case user == placeholder && find(password) == "" && !strings.Contains(value, ":"):
		user = value
	default:
		return "the placeholder is not the whole user or the whole password of basic authentication"
	}
	r.Header[name] = []string{"Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))}
	return ""
}

func putHeader(h http.Header, name, placeholder, value string) string {
	if len(h[name]) != 1 {
		return "the header " + name + " is there more than once"
	}
	before, after, ok := strings.Cut(h[name][0], placeholder)
	if !ok || find(before+" "+after) != "" {
		return "the placeholder is not there unchanged and once in the header " + name
	}
	h[name] = []string{before + value + after}
	return ""
}

func putQuery(u *url.URL, name, placeholder, value string) string {
	parts, assigned := splitQuery(u.RawQuery)
	at := -1
	for i, p := range parts {
		if unescapeQuery(p.key) != name {
			continue
		}
		if at >= 0 {
			return "the query parameter " + clip(name, 80) + " is there more than once"
		}
		at = i
	}
	if at < 0 || unescapeQuery(parts[at].value) != placeholder {
		return "the placeholder is not the whole value of the query parameter " + clip(name, 80)
	}
	parts[at].value = url.QueryEscape(value)
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(p.key)
		if assigned[i] {
			b.WriteString("=" + p.value)
		}
	}
	u.RawQuery = b.String()
	return ""
}
