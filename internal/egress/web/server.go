package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/egress/policy"
)

// Grant is a connection that was allowed.
type Grant struct {
	policy.Target
	Class   api.EgressClass
	Private bool
	// Rule is the rule that allowed it, empty if a person did.
	Rule string
	// Asked means that a person allowed it.
	Asked bool
	// Inspect means that a rule with methods or paths was looked at, so that a request must be the one
	// that its request line says.
	Inspect bool
}

// Exchange is a request and what became of it.
type Exchange struct {
	Grant
	Method, Path string
	Status       int    // of the server's answer; 0 if there is none
	Address      string // of the server; empty if no connection was used
	Cached       bool   // Config.Cache answered, without a connection of this sandbox
	Err          error  // a *Refusal, or nil
	Began        time.Time
}

// Hooks are what a connection needs from the gateway. They are called from many goroutines.
type Hooks interface {
	// Connect decides about a destination that a client of the HTTP proxy names. tunnel is
	// true for CONNECT: the rest of the connection belongs to that destination. An error
	// is a *Refusal.
	Connect(ctx context.Context, t policy.Target, tunnel bool) (Grant, error)
	// Request decides about a request. An error is a *Refusal.
	Request(ctx context.Context, g Grant, method, path string) (Grant, error)
	// Dial connects to the server, and returns its address. An error is a *Refusal.
	Dial(ctx context.Context, g Grant) (net.Conn, string, error)
	// Done is called once for each request that ended.
	Done(Exchange)
}

// Refusal is why a connection or a request was not served. Its text is for people in and
// outside of the sandbox.
type Refusal struct {
	// Failed is true for what was allowed and did not succeed.
	Failed bool
	// Status is the HTTP status, if there is an answer. 0 is 403, or 502 if Failed.
	Status int
	Reason string
	// Hint is what to do about it.
	Hint string
	// Rule is the rule that decided, if there is one.
	Rule string
}

// Error returns the reason.
func (r *Refusal) Error() string { return r.Reason }

func (r *Refusal) status() int {
	switch {
	case r.Status != 0:
		return r.Status
	case r.Failed:
		return http.StatusBadGateway
	}
	return http.StatusForbidden
}

const (
	// maxHeader is the maximum size of the header of a request, in bytes; net/http adds
	// 4 KiB.
	maxHeader = 60 << 10
	// maxResponseHeader is the maximum size of the header of an answer, in bytes.
	maxResponseHeader = 256 << 10
	// maxStreams is the maximum number of streams of an HTTP/2 connection.
	maxStreams = 128

	defaultSilence   = 10 * time.Second
	defaultHandshake = 15 * time.Second
	defaultHeader    = 30 * time.Second
	defaultIdle      = 3 * time.Minute
	defaultHalf      = 2 * time.Minute
	defaultRequests  = 512
	// maxHandshakes is the maximum number of TLS handshakes with clients at once.
	maxHandshakes = 16
)

// Config is what a Server is made from.
type Config struct {
	// Leaf returns the certificate with which a name is served.
	Leaf func(name string) (*tls.Certificate, error)
	// Roots are the authorities that may sign the certificates of servers. Default: those
	// of the system.
	Roots *x509.CertPool
	// Command is the command with which a person allows something, such as "hortus egress
	// allow sbx_1", for hints.
	Command string
	// Requests is the maximum number of requests at once. Default: 512.
	Requests int
	// Cache answers a request that was allowed, or has next, which connects to the server,
	// answer it. Default: next answers every one.
	Cache func(r *http.Request, g Grant, next http.RoundTripper) (*http.Response, error)
	// Broker answers a request that was allowed before the cache does: with next, which is the
	// cache if there is one, or with direct, which connects to the server. It may change the
	// request. An error may be a *Refusal. Default: next answers.
	Broker func(r *http.Request, g Grant, next, direct http.RoundTripper) (*http.Response, error)
	// Refused is called with a request that Broker does not get because it is not allowed.
	// It must not read the body.
	Refused func(r *http.Request, g Grant)
	// Watch returns the connection of a client that is not HTTP, whose bytes may be read on
	// their way. Default: it is forwarded as it is.
	Watch func(c net.Conn, g Grant) net.Conn
	// Silence is the maximum wait for the first bytes of a connection (default 10 s),
	// Header that for the header of a request (default 30 s), Idle that for the next
	// request (default 3 min), Handshake that for a TLS handshake (default 15 s), and Half
	// that for the next byte of a relayed connection of which one direction has ended
	// (default 2 min).
	Silence, Header, Idle, Handshake, Half time.Duration
}

// Server serves the connections of one sandbox. Its methods may be called from several
// goroutines.
type Server struct {
	cfg       Config
	tls       *tls.Config
	server    *http.Server
	transport *http.Transport
	proxy     *httputil.ReverseProxy
	listener  *listener
	buffers   buffers
	relays    sync.Pool      // buffers of connections that are relayed
	slots     chan struct{}  // one for each request
	shakes    chan struct{}  // one for each handshake with a client
	accepting sync.WaitGroup // the goroutine of server.Serve

	mu      sync.Mutex
	closed  bool
	changes int // calls of Recheck
	flights map[*flight]struct{}
	active  sync.WaitGroup // calls of Serve and of the handler
}

// New returns a Server. It must be closed.
func New(cfg Config) *Server {
	setDefault(&cfg.Silence, defaultSilence)
	setDefault(&cfg.Header, defaultHeader)
	setDefault(&cfg.Idle, defaultIdle)
	setDefault(&cfg.Handshake, defaultHandshake)
	setDefault(&cfg.Half, defaultHalf)
	if cfg.Requests <= 0 {
		cfg.Requests = defaultRequests
	}
	if cfg.Command == "" {
		cfg.Command = "hortus egress allow SANDBOX"
	}
	s := &Server{cfg: cfg, flights: map[*flight]struct{}{}, listener: newListener(), slots: make(chan struct{}, cfg.Requests), shakes: make(chan struct{}, maxHandshakes)}
	s.tls = &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{"h2", "http/1.1"},
		GetConfigForClient: checkServerName,
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return cfg.Leaf(expected(h.Context()).Host)
		},
	}
	s.transport = s.newTransport()
	quiet := log.New(discard{}, "", 0) // what a client or a server sends is no defect
	s.proxy = &httputil.ReverseProxy{
		Rewrite: rewrite, Transport: s.roundTripper(), FlushInterval: -1, ModifyResponse: received,
		ErrorHandler: s.failed, ErrorLog: quiet, BufferPool: &s.buffers,
	}
	s.server = &http.Server{
		Handler:                      http.HandlerFunc(s.handle),
		ReadHeaderTimeout:            cfg.Header,
		IdleTimeout:                  cfg.Idle,
		MaxHeaderBytes:               maxHeader,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     quiet,
		HTTP2:                        &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if t, ok := c.(*tls.Conn); ok {
				c = t.NetConn()
			}
			return context.WithValue(ctx, connKey{}, c.(*conn))
		},
	}
	s.accepting.Go(func() { _ = s.server.Serve(s.listener) })
	return s
}

// allow is a hint that names what to allow.
func (s *Server) allow(condition, class string, t policy.Target) string {
	return condition + ": " + s.cfg.Command + " " + class + hostPort(t)
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d <= 0 {
		*d = value
	}
}

// Close closes every connection and waits until none is served.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for f := range s.flights {
		f.cancel(errClosed)
	}
	s.mu.Unlock()
	s.listener.Close()
	s.server.Close()
	s.active.Wait()
	s.accepting.Wait()
	s.transport.CloseIdleConnections()
}

var errClosed = errors.New("the sandbox's connections are closed")

// enter counts a call that Close waits for; false means that the server is closed.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.active.Add(1)
	}
	return !s.closed
}

// Recheck cancels the requests that are no longer allowed, and closes idle connections to
// servers.
func (s *Server) Recheck(allowed func(g Grant, method, path string) bool) {
	s.mu.Lock()
	s.changes++
	var open []*flight
	for f := range s.flights {
		open = append(open, f)
	}
	s.mu.Unlock()
	for _, f := range open {
		if !allowed(f.Grant, f.Method, f.Path) {
			f.cancel(errRevoked)
		}
	}
	s.transport.CloseIdleConnections()
}

var errRevoked = errors.New("the policy has changed")

// buffers is a pool of buffers for bodies.
type buffers struct{ pool sync.Pool }

const bufferSize = 64 << 10

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, bufferSize)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(p []byte) { b.pool.Put(&p) }

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
