package mcp

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"hortus.dev/api"
	"hortus.dev/client"
)

// maxBody is the maximum size of a request. It holds a file of file_write in base64.
const maxBody = 4 << 20

// HandlerConfig is what a handler leads to.
type HandlerConfig struct {
	Server *Server
	// API serves the requests of the tools. It finds the caller in the context, as that of api.WithPrincipal.
	API http.Handler
	// Fail answers a request with an error.
	Fail func(http.ResponseWriter, error)
	// Challenge is the value of WWW-Authenticate for a request without a key; empty means "Bearer".
	Challenge string
}

// NewHandler creates the handler of POST /mcp, whose requests have their principal in the context, and the server of the API for its
// tools. Serve the latter on the listener: a tool waits until somebody does.
func NewHandler(cfg HandlerConfig) (handler http.Handler, inside *http.Server, on net.Listener) {
	l := &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
	streamable := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		s, _ := r.Context().Value(serverKey{}).(*mcp.Server)
		return s
	}, &mcp.StreamableHTTPOptions{
		// A request of 2026-07-28 is served by a stateless handler only.
		Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: maxBody, Logger: cfg.Server.cfg.Logger,
		// It refuses all names but localhost, also those of a proxy on this machine. Package front does what it is for.
		DisableLocalhostProtection: true,
	})
	handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := api.PrincipalOf(r.Context())
		if p.Role == "" {
			w.Header().Set("WWW-Authenticate", cmp.Or(cfg.Challenge, "Bearer"))
			cfg.Fail(w, api.Errorf(api.KindUnauthenticated, "this request needs an API key").
				WithHint("send it as Authorization: Bearer KEY; create one with hortus key create"))
			return
		}
		if r.Body = unbatched(w, r, cfg.Fail); r.Body == nil {
			return
		}
		c := client.New(client.Config{Dial: func(ctx context.Context) (net.Conn, error) { return l.dial(ctx, p) }})
		defer c.Close()
		connect := func(context.Context) (*client.Client, error) { return c, nil }
		// A proxy must hand progress on when it comes.
		w.Header().Set("X-Accel-Buffering", "no")
		streamable.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), serverKey{}, cfg.Server.of(connect, baseOf(r)))))
	})
	return handler, &http.Server{
		Handler: cfg.API, ReadHeaderTimeout: 10 * time.Second,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return api.WithPrincipal(ctx, c.(callerConn).principal)
		},
	}, l
}

// unbatched refuses a batch of messages, which clients from before 2025-06-18 may send: a key's rate is that of its requests. It
// returns the body, or nil.
func unbatched(w http.ResponseWriter, r *http.Request, fail func(http.ResponseWriter, error)) io.ReadCloser {
	body := bufio.NewReader(r.Body)
	head, _ := body.Peek(512) // who reads the body sees the error
	if message := bytes.TrimLeft(head, " \t\r\n"); len(head) > 0 && (len(message) == 0 || message[0] == '[') {
		fail(w, api.Errorf(api.KindUnsupported, "the request is a batch").WithHint("send each message in a request of its own"))
		return nil
	}
	return struct {
		io.Reader
		io.Closer
	}{body, r.Body}
}

// serverKey is the context's key of the server of a request.
type serverKey struct{}

// baseOf is where the client of a request finds the daemon.
func baseOf(r *http.Request) string {
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// listener accepts connections from inside the process.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// callerConn is a connection with the one on whose behalf its requests are.
type callerConn struct {
	net.Conn
	principal api.Principal
}

func (l *listener) dial(ctx context.Context, p api.Principal) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- callerConn{far, p}:
		return near, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (*listener) Addr() net.Addr { return &net.UnixAddr{Name: "inside", Net: "pipe"} }
