package client

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"strings"

	"hortus.dev/api"
)

// keyHeader carries the API key. Authorization is the guest's: it names the user of
// a command.
const keyHeader = "X-Api-Key"

// Remote makes a client of a daemon that serves at a URL, as in
// "https://hortus.example" or "http://127.0.0.1:7070", and shows it an API key. It
// connects when it is first used, to that host alone. KindInvalid for what is no such
// address or no key.
func Remote(address, key string) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		u.Opaque != "" || !plain(u.Host) || !plain(u.Path) {
		if err != nil || u.User != nil || u.RawQuery != "" {
			// There may be a secret in it.
			return nil, api.Errorf(api.KindInvalid, "not the URL of a daemon").
				WithHint("use an http or https URL without a user name, a password or a query, for example https://hortus.example")
		}
		return nil, api.Errorf(api.KindInvalid, "%.100q is not the URL of a daemon", address).
			WithHint("use an http or https URL without a user name, a password or a query, for example https://hortus.example")
	}
	if key == "" || !plain(key) {
		return nil, api.Errorf(api.KindInvalid, "invalid or missing API key for %s", u.Host).WithHint("a key consists of e2b_ and 40 hexadecimal digits")
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	target := net.JoinHostPort(u.Hostname(), port)
	dial := func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", target)
	}
	if u.Scheme == "https" {
		d := &tls.Dialer{Config: &tls.Config{ServerName: u.Hostname(), NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}}
		dial = func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "tcp", target) }
	}
	return New(Config{Dial: dial, Host: u.Host, Prefix: strings.TrimSuffix(u.Path, "/"), Key: key}), nil
}

// plain reports whether a text can stand in a request's head as it is.
func plain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// headers are those of every request to a guest.
func (c *Client) headers() http.Header {
	h := http.Header{"Host": {c.host}}
	if c.key != "" {
		h.Set(keyHeader, c.key)
	}
	return h
}
