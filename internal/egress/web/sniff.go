package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"hortus.dev/internal/egress/policy"
)

const (
	// maxPeek is how many bytes are read to recognize a protocol.
	maxPeek = 64
	// maxMethod is the maximum length of the method of a request.
	maxMethod = 32
	// maxHello is the maximum size of a ClientHello with its record headers, in bytes.
	maxHello = 72 << 10
	// extensionECH is encrypted_client_hello.
	extensionECH = 0xfe0d
)

// preface begins an HTTP/2 connection in clear.
const preface = "PRI * HTTP/2"

// protocolOf recognizes a protocol by its first bytes: "tls", "http", or "" for any other.
func protocolOf(b []byte) string {
	if len(b) >= 2 && b[0] == 0x16 && b[1] == 0x03 {
		return "tls"
	}
	method, rest, ok := bytes.Cut(b, []byte(" "))
	if !ok || len(method) == 0 || len(method) > maxMethod || len(rest) == 0 || bytes.HasPrefix(b, []byte(preface)) {
		return ""
	}
	for _, c := range method {
		if c != '-' && c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return ""
		}
	}
	// What follows is a path, "*", an absolute URL, or the destination of CONNECT.
	if rest[0] == '/' || rest[0] == '*' || bytes.HasPrefix(bytes.ToLower(rest), []byte("http")) || string(method) == "CONNECT" {
		return "http"
	}
	return ""
}

// undecided reports whether more bytes are needed to recognize the protocol.
func undecided(b []byte) bool {
	if len(b) < 2 {
		return true
	}
	if b[0] == 0x16 || b[0] < 'A' || b[0] > 'z' {
		return false
	}
	sp := bytes.IndexByte(b, ' ')
	switch {
	case bytes.ContainsAny(b, "\r\n"):
		return false
	case sp < 0:
		return len(b) <= maxMethod
	case bytes.HasPrefix([]byte(preface), b):
		return len(b) < len(preface)
	}
	rest := b[sp+1:]
	// "http" has four letters.
	return len(rest) == 0 || len(rest) < 4 && rest[0] != '/' && rest[0] != '*'
}

// nameCheck is the check of the server name of one handshake.
type nameCheck struct {
	server  *Server
	target  policy.Target
	refusal *Refusal
}

type checkKey struct{}

func expected(ctx context.Context) policy.Target {
	if c, ok := ctx.Value(checkKey{}).(*nameCheck); ok {
		return c.target
	}
	return policy.Target{}
}

// checkServerName refuses a handshake for another name. It is called for every handshake,
// also for one that resumes a session.
func checkServerName(h *tls.ClientHelloInfo) (*tls.Config, error) {
	c, ok := h.Context().Value(checkKey{}).(*nameCheck)
	if !ok {
		return nil, errors.New("a handshake without a target")
	}
	if c.refusal = c.server.refuseName(h.ServerName, c.target); c.refusal != nil {
		return nil, c.refusal
	}
	return nil, nil
}

// refuseName compares the server name of a ClientHello with the target.
func (s *Server) refuseName(name string, t policy.Target) *Refusal {
	switch {
	case isAddress(t.Host):
		return &Refusal{
			Reason: "TLS to an address has no name that can be checked",
			Hint:   s.allow("Use the name of the server, or allow any protocol", "tcp://", t),
		}
	case name == "":
		return &Refusal{Reason: "the TLS connection has no server name", Hint: s.allow("If the program cannot send one", "tcp://", t)}
	case !sameName(name, t.Host):
		return &Refusal{Reason: fmt.Sprintf("the TLS server name is %s, the connection is to %s", clip(name), t.Host)}
	}
	return nil
}

// passthrough reads and checks the ClientHello of a connection that is not terminated, and
// returns the bytes that were read.
func (s *Server) passthrough(ctx context.Context, c net.Conn, g Grant) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { c.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := c.SetReadDeadline(time.Now().Add(s.cfg.Silence)); err != nil {
		return nil, nil
	}
	hello, raw, err := readHello(c)
	if err != nil {
		var ne net.Error
		switch {
		case ctx.Err() != nil:
			return nil, err
		case errors.As(err, &ne) && ne.Timeout():
			return nil, &Refusal{Reason: "the program did not begin a TLS connection in time", Hint: s.allow("For another protocol", "tcp://", g.Target)}
		case len(raw) == 0:
			return nil, err // it left
		}
		return nil, &Refusal{Reason: "the connection is not TLS", Hint: s.allow("For another protocol", "tcp://", g.Target)}
	}
	if r := s.refuseName(hello.name, g.Target); r != nil {
		return nil, r
	}
	if hello.encrypted {
		return nil, &Refusal{Reason: "the TLS connection has an encrypted server name (ECH)", Hint: "Switch ECH off in the program."}
	}
	return raw, c.SetReadDeadline(time.Time{})
}

// clientHello is what a ClientHello says.
type clientHello struct {
	name      string
	encrypted bool // it has the extension of ECH
}

// errHello ends the handshake that only reads a ClientHello.
var errHello = errors.New("the ClientHello was read")

// readHello reads a ClientHello. It also returns every byte that it read, at most maxHello
// plus one record.
func readHello(r io.Reader) (*clientHello, []byte, error) {
	only := &helloConn{r: r}
	var hello *clientHello
	err := tls.Server(only, &tls.Config{
		MinVersion: tls.VersionTLS10,
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			hello = &clientHello{name: h.ServerName, encrypted: slices.Contains(h.Extensions, extensionECH)}
			return nil, errHello
		},
	}).Handshake()
	if hello == nil && err == nil {
		err = errors.New("no ClientHello")
	}
	if hello != nil {
		err = nil
	}
	return hello, only.raw, err
}

// helloConn reads a limited number of bytes, keeps them, and sends nothing.
type helloConn struct {
	net.Conn // nil: crypto/tls calls no other method in a handshake without a context
	r        io.Reader
	raw      []byte
}

// Read implements net.Conn.
func (h *helloConn) Read(p []byte) (int, error) {
	if len(h.raw) >= maxHello {
		return 0, errors.New("the ClientHello is too large")
	}
	n, err := h.r.Read(p)
	h.raw = append(h.raw, p[:n]...)
	return n, err
}

// Write implements net.Conn.
func (h *helloConn) Write(p []byte) (int, error) { return len(p), nil }

// Close implements net.Conn.
func (h *helloConn) Close() error { return nil }

// SetWriteDeadline implements net.Conn; an alert is sent with one.
func (h *helloConn) SetWriteDeadline(time.Time) error { return nil }

// sameName compares a name that a client sent with a target's.
func sameName(name, target string) bool {
	return strings.EqualFold(strings.TrimSuffix(name, "."), target) && ascii(name)
}

// ascii keeps letters out that EqualFold takes for ASCII ones, such as the Kelvin sign.
func ascii(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0
}

// clip shortens text of a client or a server for a message, and replaces what is not printable
// ASCII.
func clip(s string) string {
	const limit = 200
	tail := ""
	if len(s) > limit {
		s, tail = s[:limit], "..."
	}
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f {
			return '?'
		}
		return r
	}, s) + tail
}
