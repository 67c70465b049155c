package preset

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"hortus.dev/internal/egress/policy"
)

const maxURL = 2 << 10 // bytes

// mirror is a URL of a tool's configuration, without credentials.
type mirror struct {
	url       string
	scheme    string
	authority string // the host, and the port if the URL has one
	target    policy.Target
}

func (m mirror) ports() string { return strconv.Itoa(m.target.Port) }

// is reports whether the mirror is at the same URL, but for a slash at the end.
func (m mirror) is(other string) bool {
	return strings.TrimSuffix(m.url, "/") == strings.TrimSuffix(other, "/")
}

// read reads the URL of a mirror. what names the setting in warnings. The text of a URL that is
// not correct is not repeated: it can have a password anywhere.
func (c *collector) read(what, raw string) (mirror, bool) {
	m, dropped, err := parseMirror(raw)
	if err != "" {
		c.warn(fmt.Sprintf("%s %s; it is left out.", what, err))
		return mirror{}, false
	}
	if dropped != "" {
		c.warn(fmt.Sprintf("%s has %s, which sandboxes do not get: %s.", what, dropped, m.url))
	}
	return m, true
}

// parseMirror returns a mirror and what was removed from its URL, or what is wrong with it.
func parseMirror(raw string) (m mirror, dropped, wrong string) {
	raw = strings.TrimSpace(raw)
	if len(raw) > maxURL {
		return mirror{}, "", fmt.Sprintf("is longer than %d bytes", maxURL)
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.Host == "" {
		return mirror{}, "", "is not a URL"
	}
	port := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	switch {
	case port == "":
		return mirror{}, "", "is not an http or https URL"
	case strings.Contains(u.Path+u.RawQuery+u.Fragment, "@"):
		// A password with "/", "?" or "#" ends up there, and its beginning is read as the host.
		return mirror{}, "", "has an @ behind its host, so credentials may be in it"
	case u.Port() != "":
		port = u.Port()
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return mirror{}, "", "has a port that is not a number"
	}
	t, err := policy.NewTarget(u.Hostname(), n)
	if err != nil {
		return mirror{}, "", "has a host or a port that is not valid"
	}
	if loopback(t.Host) {
		return mirror{}, "", "is on this machine's loopback, which a sandbox does not reach"
	}
	if u.User != nil {
		dropped = "credentials"
	}
	if u.RawQuery != "" || u.Fragment != "" {
		dropped = strings.TrimPrefix(dropped+" and a query", " and ")
	}
	authority := t.Host
	if strings.Contains(authority, ":") {
		authority = "[" + authority + "]"
	}
	if u.Port() != "" {
		authority += ":" + port
	}
	clean := url.URL{Scheme: u.Scheme, Host: authority, Path: u.Path, RawPath: u.RawPath}
	return mirror{clean.String(), u.Scheme, authority, t}, dropped, ""
}

// loopback reports whether a host is the machine itself.
func loopback(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.IsLoopback() || addr.IsUnspecified()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
