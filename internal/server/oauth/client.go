package oauth

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"hortus.dev/api"
)

// Bounds of what clients say of themselves.
const (
	maxRedirects = 10
	maxURI       = 500
	maxName      = 60
	maxMetadata  = 64 << 10
	fetchTime    = 5 * time.Second
)

// client is what is known of a client: what it says itself.
type client struct {
	Name      string   `json:"client_name,omitempty"`
	Redirects []string `json:"redirect_uris"`
}

// check bounds what a client says.
func (c *client) check() error {
	if len(c.Redirects) == 0 || len(c.Redirects) > maxRedirects {
		return api.Errorf(api.KindInvalid, "redirect_uris has %d entries: 1 to %d are allowed", len(c.Redirects), maxRedirects)
	}
	for _, r := range c.Redirects {
		if _, err := redirectOf(r); err != nil {
			return err
		}
	}
	c.Name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(c.Name, ""))
	if utf8.RuneCountInString(c.Name) > maxName {
		c.Name = string([]rune(c.Name)[:maxName])
	}
	return nil
}

// redirectOf parses a redirect URI: HTTPS, or HTTP to a program on the person's machine.
func redirectOf(uri string) (*url.URL, error) {
	u, err := url.Parse(uri)
	ok := err == nil && len(uri) <= maxURI && u.Opaque == "" && u.User == nil && u.Fragment == "" && !strings.Contains(uri, "#") && hostIsPlain(u.Host)
	if !ok || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return nil, api.Errorf(api.KindInvalid, "%.100q cannot be a redirect URI", uri).WithHint("use https, or http with localhost or 127.0.0.1; no fragment and no user")
	}
	return u, nil
}

// hostIsPlain reports whether a host can be part of a policy in a header.
func hostIsPlain(host string) bool {
	return host != "" && strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789.-:[]") == ""
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// has reports whether a client lists a redirect URI. A program on the person's machine takes any free port (RFC 8252, 7.3).
func (c *client) has(uri string) bool {
	u, err := redirectOf(uri)
	return err == nil && slices.ContainsFunc(c.Redirects, func(listed string) bool {
		if listed == uri {
			return true
		}
		l, err := url.Parse(listed)
		if err != nil || l.Scheme != "http" || u.Scheme != "http" {
			return false
		}
		same := *u
		l.Host, same.Host = l.Hostname(), u.Hostname()
		return *l == same
	})
}

// client finds a client by its identifier: a registration of this server's, or the URL of its metadata.
func (s *Server) client(ctx context.Context, id string) (c client, err error) {
	if strings.HasPrefix(id, kindClient) {
		if s.open(kindClient, id, s.now(), &c) != nil {
			return c, api.Errorf(api.KindInvalid, "the client_id is not of this server").WithHint("register again")
		}
		return c, nil
	}
	u, err := url.Parse(id)
	if err != nil || len(id) > maxURI || u.Scheme != "https" || u.Opaque != "" || u.User != nil || u.Port() != "" || u.RawQuery != "" || strings.Contains(id, "#") || u.Path == "" || u.Path == "/" || u.Path != u.EscapedPath() || !hostIsPlain(u.Host) {
		return c, api.Errorf(api.KindInvalid, "the client_id is neither a registration nor the URL of a client's metadata")
	}
	if err := s.fetch(ctx, u, id, &c); err != nil {
		return c, api.Errorf(api.KindInvalid, "the metadata of the client cannot be used: %w", err)
	}
	return c, c.check()
}

// fetch reads the metadata of a client, at most a few at a time.
func (s *Server) fetch(ctx context.Context, u *url.URL, id string, c *client) error {
	select {
	case s.fetches <- struct{}{}:
		defer func() { <-s.fetches }()
	default:
		return api.Errorf(api.KindExhausted, "too many clients are looked up at the same time")
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			host, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			n, err := strconv.Atoi(port)
			if err != nil {
				return nil, err
			}
			return s.cfg.Dial(ctx, host, n)
		},
		TLSClientConfig: &tls.Config{RootCAs: s.cfg.Roots}, DisableKeepAlives: true, MaxResponseHeaderBytes: maxMetadata,
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := transport.RoundTrip(req) // which follows no redirect
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxMetadata+1))
	if err != nil || resp.StatusCode != http.StatusOK || len(b) > maxMetadata {
		return api.Errorf(api.KindInvalid, "%s answers with status %d and %d bytes", u.Host, resp.StatusCode, len(b))
	}
	var document struct {
		ID string `json:"client_id"`
		client
	}
	if err := json.Unmarshal(b, &document); err != nil {
		return api.Errorf(api.KindInvalid, "%s does not answer with a JSON object of metadata", u.Host)
	}
	if document.ID != id {
		return api.Errorf(api.KindInvalid, "%s answers with the metadata of another client", u.Host)
	}
	*c = document.client
	return nil
}
