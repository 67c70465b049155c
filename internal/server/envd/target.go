package envd

import (
	"errors"
	"net"
	"net/http"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// The headers that name a sandbox where the host does not.
const (
	headerSandbox = "E2b-Sandbox-Id"
	headerPort    = "E2b-Sandbox-Port"
)

// target is where a request leads.
type target struct {
	// id is of letters and digits, and need not be one of a sandbox.
	id   api.SandboxID
	port int
	// labelled is true if the host named it, so that its address is the
	// sandbox's own and no other's.
	labelled bool
	// signed is true if the signature alone names the sandbox.
	signed bool
	// opened is true for a WebSocket that used up a ticket.
	opened bool
	// listed is true if the answer already allows a page of a listed origin; see Guest.
	listed bool
}

// Claims reports whether a request is for the data plane: its host begins with a
// label <port>-<id>, it has a header E2b-Sandbox-Id, or it is for /files and is
// signed.
func Claims(r *http.Request) bool {
	if _, _, ok := splitLabel(r.Host); ok {
		return true
	}
	if len(r.Header.Values(headerSandbox)) > 0 {
		return true
	}
	return r.URL.Path == envd.PathFiles && r.URL.Query().Has(paramSignature)
}

// Guest reports whether a request that Claims is for a sandbox's own server or the port of its code interpreter, and not
// for another program of it.
func Guest(r *http.Request) bool {
	t, err := targetOf(r)
	return err == nil && (t.signed || t.port == envd.GuestPort || t.port == envd.CodePort)
}

// targetOf reads where a request leads. What it says twice, and not the same, it
// does not say.
func targetOf(r *http.Request) (target, error) {
	ids, ports := r.Header.Values(headerSandbox), r.Header.Values(headerPort)
	if len(ids) > 1 || len(ports) > 1 {
		return target{}, errors.New("duplicate sandbox header")
	}
	if port, id, ok := splitLabel(r.Host); ok {
		n, ok := envd.ParsePort(port)
		if !ok {
			return target{}, errors.New("the host has no port")
		}
		if len(ids) == 1 && ids[0] != id || len(ports) == 1 && ports[0] != port {
			return target{}, errors.New("the host and a header name different sandboxes")
		}
		return target{id: api.SandboxID(id), port: n, labelled: true}, nil
	}
	if len(ids) == 0 {
		return target{signed: true}, nil
	}
	if !plain(ids[0]) {
		return target{}, errors.New("the header " + headerSandbox + " is not an ID")
	}
	t := target{id: api.SandboxID(ids[0]), port: envd.GuestPort}
	if len(ports) == 1 {
		var ok bool
		if t.port, ok = envd.ParsePort(ports[0]); !ok {
			return target{}, errors.New("the header " + headerPort + " is not a port")
		}
	}
	return t, nil
}

// splitLabel reads <port>-<id>, perhaps with more behind another "-", from the
// first label of a host. The port may be out of range, and the id of no sandbox.
func splitLabel(host string) (port, id string, ok bool) {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	label, _, _ := strings.Cut(strings.ToLower(host), ".")
	port, rest, ok := strings.Cut(label, "-")
	if !ok || port == "" || len(label) > 63 {
		return "", "", false
	}
	for _, c := range []byte(port) {
		if c < '0' || c > '9' {
			return "", "", false
		}
	}
	id, _, _ = strings.Cut(rest, "-")
	return port, id, plain(id)
}

// plain reports whether a name is of lower-case letters and digits, and no longer
// than a label.
func plain(id string) bool {
	if id == "" || len(id) > 63 {
		return false
	}
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}
