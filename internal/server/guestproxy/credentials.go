package guestproxy

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// The form of an API key, which clients of E2B check (package key).
const (
	keyPrefix = "e2b_"
	keyDigits = 40
)

// The form of a signature in the query of a signed address, and its parameter.
const (
	signatureParam  = "signature"
	signaturePrefix = "v1_"
	signatureLen    = len(signaturePrefix) + 43
)

// maxUnescape is how many layers of percent encoding are looked through: an address
// in the query of an address in a Referer has three.
const maxUnescape = 3

// Credentials finds the daemon's secrets in a request that goes to a program of a
// sandbox, and removes them. An API key is known by its form, so that a revoked key
// and one of another daemon are found too; tokens are known by their values.
//
// A secret is found in plain, percent encoding and base64. A body is not searched.
type Credentials struct {
	// Tokens are the tokens of the sandbox that the request is for.
	Tokens []string
}

// Strip removes secrets from the headers, trailers and query of a request. Nothing
// else of them changes: an Authorization header of the program's own passes.
func (c Credentials) Strip(r *http.Request) {
	c.StripHeader(r.Header)
	r.Trailer = nil // its values are not known yet
	r.URL.RawQuery = c.remove(r.URL.RawQuery, "&", func(part string) bool {
		return c.In(part) || signs(part)
	})
}

// StripHeader removes secrets from headers: of a list of cookies or subprotocols the
// entries with one, of every other header the value.
func (c Credentials) StripHeader(h http.Header) {
	for name, values := range h {
		switch name {
		case "Cookie":
			values = c.removeEach(values, ";", c.In)
		case "Sec-Websocket-Protocol":
			values = c.removeEach(values, ",", c.In)
		case "Referer":
			values = slices.DeleteFunc(values, func(v string) bool { return c.In(v) || signedAddress(v) })
		default:
			values = slices.DeleteFunc(values, c.In)
		}
		if len(values) == 0 {
			delete(h, name)
			continue
		}
		h[name] = values
	}
}

func (c Credentials) removeEach(values []string, separator string, secret func(string) bool) []string {
	kept := values[:0]
	for _, v := range values {
		rest := strings.TrimSpace(c.remove(v, separator, secret))
		if rest != "" || v == "" {
			kept = append(kept, rest)
		}
	}
	return kept
}

// remove returns a list without the entries that are secret, and otherwise as it was.
func (c Credentials) remove(list, separator string, secret func(string) bool) string {
	parts := strings.Split(list, separator)
	kept := slices.DeleteFunc(slices.Clone(parts), secret)
	if len(kept) == len(parts) {
		return list
	}
	return strings.Join(kept, separator)
}

// In reports whether a text holds a secret.
func (c Credentials) In(text string) bool {
	for range maxUnescape {
		if c.plain(text) || c.encoded(text) {
			return true
		}
		next := unescape(text)
		if next == text {
			return false
		}
		text = next
	}
	return c.plain(text) || c.encoded(text)
}

// plain finds a secret that is written as it is.
func (c Credentials) plain(text string) bool {
	for _, t := range c.Tokens {
		if t != "" && strings.Contains(text, t) {
			return true
		}
	}
	for {
		_, rest, ok := strings.Cut(text, keyPrefix)
		if !ok {
			return false
		}
		if len(rest) >= keyDigits && strings.Trim(rest[:keyDigits], "0123456789abcdef") == "" {
			return true
		}
		text = rest
	}
}

// encoded finds a secret in base64 of either alphabet. Where in a run of its letters
// the encoding begins is not known; there are four ways to divide a run.
func (c Credentials) encoded(text string) bool {
	shortest := len(keyPrefix) + keyDigits
	for _, t := range c.Tokens {
		if t != "" {
			shortest = min(shortest, len(t))
		}
	}
	for run := range strings.FieldsFuncSeq(text, notBase64) {
		if len(run) < base64.RawStdEncoding.EncodedLen(shortest) {
			continue // most are
		}
		run = toStandard.Replace(run)
		for at := range 4 {
			part := run[at:]
			if len(part)%4 == 1 {
				part = part[:len(part)-1]
			}
			if b, err := base64.RawStdEncoding.DecodeString(part); err == nil && c.plain(string(b)) {
				return true
			}
		}
	}
	return false
}

var toStandard = strings.NewReplacer("-", "+", "_", "/")

func notBase64(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return false
	}
	return r != '+' && r != '/' && r != '-' && r != '_'
}

// signedAddress reports whether an address is a signed one of this daemon's.
func signedAddress(address string) bool {
	_, query, _ := strings.Cut(address, "?")
	query, _, _ = strings.Cut(query, "#")
	return slices.ContainsFunc(strings.Split(query, "&"), signs)
}

// signs reports whether a parameter of a query is the signature of a signed address.
func signs(param string) bool {
	name, value, _ := strings.Cut(param, "=")
	value = unescape(value)
	return unescape(name) == signatureParam && len(value) == signatureLen && strings.HasPrefix(value, signaturePrefix)
}

// unescape decodes one layer of percent encoding, and leaves what is not encoded right.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if d, err := url.PathUnescape(s[i : i+3]); err == nil {
				b.WriteString(d)
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
