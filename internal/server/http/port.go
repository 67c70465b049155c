package http

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/server/guestproxy"
)

// guests lead clients to the servers of guests.
type guests struct {
	sandboxes Sandboxes
	proxy     *guestproxy.Proxy
}

// serve passes a request below /envd/ on to the sandbox's guest, except for one of the host's
// own paths.
func (d guests) serve(w http.ResponseWriter, r *http.Request) error {
	id, err := sandboxID(d.sandboxes)(r)
	if err == nil {
		_, err = d.sandboxes.Get(r.Context(), id)
	}
	if err != nil {
		return err
	}
	prefix := "/v1/sandboxes/" + r.PathValue("id") + "/envd"
	in := r.WithContext(r.Context())
	in.URL = &url.URL{
		Path: strings.TrimPrefix(r.URL.Path, prefix), RawPath: strings.TrimPrefix(r.URL.EscapedPath(), prefix), RawQuery: r.URL.RawQuery,
	}
	if strings.HasPrefix(in.URL.Path, envd.PathsOfHost) {
		return api.Errorf(api.KindNotFound, "path not found")
	}
	d.proxy.Serve(w, in, id)
	return nil
}

// port returns a stream to a port inside a sandbox: after the answer 101 the
// connection is that stream. It lives until either side ends it, or the sandbox
// ends.
func (d sandboxes) port(w http.ResponseWriter, r *http.Request) error {
	port, ok := envd.ParsePort(r.PathValue("port"))
	if !ok {
		return api.Errorf(api.KindInvalid, "%.20q is not a port: use 1 to %d", r.PathValue("port"), envd.MaxPort)
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), envd.PortProtocol) || r.ContentLength != 0 {
		return api.Errorf(api.KindInvalid, "a port is a stream: request it with \"Connection: Upgrade\" and \"Upgrade: %s\", and without a body", envd.PortProtocol)
	}
	id, err := sandboxID(d.Sandboxes)(r)
	var stream net.Conn
	if err == nil {
		stream, err = d.Sandboxes.Dial(r.Context(), id, port)
	}
	if err != nil {
		return err
	}
	defer stream.Close()
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return api.Errorf(api.KindInternal, "upgrade the connection: %w", err)
	}
	defer conn.Close()
	head := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + envd.PortProtocol + "\r\n\r\n"
	if _, err := io.WriteString(conn, head); err != nil {
		return nil
	}
	// What the client sent without waiting for the answer comes first.
	if n := rw.Reader.Buffered(); n > 0 {
		early, _ := rw.Reader.Peek(n)
		if _, err := stream.Write(early); err != nil {
			return nil
		}
	}
	guestproxy.Pipe(conn, stream, guestproxy.DefaultGrace)
	return nil
}
