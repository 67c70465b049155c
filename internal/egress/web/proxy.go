package web

import (
	"io"
	"net"
	"net/http"
	"time"

	"hortus.dev/api"
)

// handleProxy serves a request of a client that uses the host as an HTTP proxy.
func (s *Server) handleProxy(w http.ResponseWriter, r *http.Request, c *conn) {
	if r.Method == http.MethodConnect {
		s.connect(w, r, c)
		return
	}
	if r.URL.Scheme != "http" || r.URL.Host == "" || r.URL.User != nil {
		answer(w, &Refusal{Status: http.StatusBadRequest, Reason: "this is an HTTP proxy: it takes CONNECT, and requests with a URL that begins with http://"})
		return
	}
	t, err := targetOf(r.URL.Host, "80")
	if err != nil {
		answer(w, &Refusal{Status: http.StatusBadRequest, Reason: err.Error()})
		return
	}
	g, err := c.hooks.Connect(r.Context(), t, false)
	if err == nil && g.Class == api.EgressPassthrough {
		err = &Refusal{Reason: "only TLS is allowed to " + hostPort(t), Hint: s.allow("To allow HTTP", "", t)}
	}
	if err != nil {
		(&flight{}).refuse(w, err)
		return
	}
	s.forward(w, r, c.hooks, g, "http")
}

// connect opens a tunnel. ServeProxy serves it.
func (s *Server) connect(w http.ResponseWriter, r *http.Request, c *conn) {
	refuse := (&flight{}).refuse
	t, err := targetOf(r.Host, "")
	if err != nil || r.ContentLength != 0 {
		refuse(w, &Refusal{Status: http.StatusBadRequest, Reason: "CONNECT needs a host and a port, and has no body"})
		return
	}
	g, err := c.hooks.Connect(r.Context(), t, true)
	if err != nil {
		refuse(w, err)
		return
	}
	var up net.Conn
	if g.Class != api.EgressWeb {
		if up, _, err = c.hooks.Dial(r.Context(), g); err != nil {
			refuse(w, err)
			return
		}
	}
	client, err := hijack(w)
	if err != nil {
		if up != nil {
			up.Close()
		}
		c.Close()
		return
	}
	c.tunnels <- tunnel{client: client, up: up, grant: g}
}

// hijack takes a connection from the http.Server and answers CONNECT.
func hijack(w http.ResponseWriter) (net.Conn, error) {
	client, brw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	if err := client.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return nil, err
	}
	rest, _ := brw.Reader.Peek(brw.Reader.Buffered())
	return WithPrefix(client, rest), nil
}
