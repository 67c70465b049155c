package web

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"hortus.dev/internal/egress/policy"
)

// checkRequest refuses a request that is not for the target of its connection, or that would
// make the connection something else than HTTP.
func checkRequest(r *http.Request, t policy.Target, scheme string) *Refusal {
	u := r.URL
	switch {
	case r.Method == http.MethodConnect:
		return &Refusal{Reason: "CONNECT inside a connection to a server", Hint: "Use the host as a proxy with HTTPS_PROXY instead."}
	case r.Method == "PRI":
		return &Refusal{Status: http.StatusHTTPVersionNotSupported, Reason: "HTTP/2 without TLS is not supported"}
	case u.Opaque != "" || u.User != nil || u.Scheme != "" && u.Scheme != scheme:
		return &Refusal{Status: http.StatusBadRequest, Reason: "the request line is not one for this connection"}
	case r.Host == "":
		return &Refusal{Status: http.StatusBadRequest, Reason: "the request has no Host header"}
	case u.Host != "" && !sameHost(u.Host, t):
		return misdirected(u.Host, t)
	case !sameHost(r.Host, t):
		return misdirected(r.Host, t)
	}
	for _, h := range r.Header["Host"] { // HTTP/2 may have both
		if !sameHost(h, t) {
			return misdirected(h, t)
		}
	}
	if up, ok := r.Header["Upgrade"]; ok && (len(up) != 1 || !strings.EqualFold(strings.TrimSpace(up[0]), "websocket")) {
		return &Refusal{Status: http.StatusNotImplemented, Reason: fmt.Sprintf("the request switches to %s; only websocket is possible", clip(strings.Join(up, ", ")))}
	}
	return nil
}

func misdirected(host string, t policy.Target) *Refusal {
	return &Refusal{
		Status: http.StatusMisdirectedRequest,
		Reason: fmt.Sprintf("the request is for the host %s, the connection is to %s", clip(host), hostPort(t)),
	}
}

// sameHost compares a Host header, or the authority of a URL, with a target. The port may be
// left out.
func sameHost(host string, t policy.Target) bool {
	name, port := host, ""
	if h, p, err := net.SplitHostPort(host); err == nil {
		name, port = h, p
	} else if inner, ok := strings.CutPrefix(host, "["); ok {
		name, ok = strings.CutSuffix(inner, "]")
		if !ok {
			return false
		}
	}
	if port != "" && port != strconv.Itoa(t.Port) {
		return false
	}
	if isAddress(t.Host) {
		a, err := netip.ParseAddr(name)
		return err == nil && a.Zone() == "" && a.Unmap().String() == t.Host
	}
	return sameName(name, t.Host)
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// hostPort returns a target as HOST:PORT.
func hostPort(t policy.Target) string { return net.JoinHostPort(t.Host, strconv.Itoa(t.Port)) }

// targetOf reads HOST:PORT of a client of the proxy.
func targetOf(authority, defaultPort string) (policy.Target, error) {
	host, port, err := net.SplitHostPort(authority)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(authority, "["), "]"), defaultPort
	}
	if port == "" {
		port = defaultPort
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return policy.Target{}, fmt.Errorf("%q is not a port", clip(port))
	}
	return policy.NewTarget(host, int(n))
}
