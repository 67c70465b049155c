package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/egress/authority"
	"hortus.dev/internal/egress/policy"
	"hortus.dev/test/patience"
)

func newCA(t testing.TB, secret byte) (*authority.CA, *x509.CertPool) {
	t.Helper()
	a, err := authority.New(bytes.Repeat([]byte{secret}, 32))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := a.CA("lin_test")
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.PEM())
	return ca, pool
}

// rig is a Server whose servers are on loopback, and who trusts an authority of the test.
type rig struct {
	t      testing.TB
	server *Server
	trust  *x509.CertPool // what clients in the sandbox trust
	world  *authority.CA  // who signs the certificates of servers

	mu        sync.Mutex
	addresses map[string]string // "host:port" to the address of a test's server
	requests  func(g Grant, method, path string) error
	classes   map[string]api.EgressClass
	denied    map[string]bool
	exchanges []Exchange
	dials     int
}

func newRig(t testing.TB, change ...func(*Config)) *rig {
	ca, trust := newCA(t, 1)
	world, roots := newCA(t, 2)
	r := &rig{t: t, trust: trust, world: world, addresses: map[string]string{}, classes: map[string]api.EgressClass{}, denied: map[string]bool{}}
	cfg := Config{Leaf: ca.Leaf, Roots: roots, Cache: func(r *http.Request, _ Grant, next http.RoundTripper) (*http.Response, error) {
		return next.RoundTrip(r) // as a cache does with what is no package
	}}
	for _, c := range change {
		c(&cfg)
	}
	r.server = New(cfg)
	t.Cleanup(r.server.Close)
	return r
}

// Connect implements Hooks.
func (r *rig) Connect(_ context.Context, t policy.Target, _ bool) (Grant, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.denied[t.Host] {
		return Grant{}, &Refusal{Reason: "no rule matches", Hint: "hortus egress allow"}
	}
	return Grant{Target: t, Class: r.classes[hostPort(t)]}, nil
}

// Request implements Hooks.
func (r *rig) Request(_ context.Context, g Grant, method, path string) (Grant, error) {
	r.mu.Lock()
	f := r.requests
	r.mu.Unlock()
	if f == nil {
		return g, nil
	}
	return g, f(g, method, path)
}

// Dial implements Hooks.
func (r *rig) Dial(ctx context.Context, g Grant) (net.Conn, string, error) {
	r.mu.Lock()
	addr, ok := r.addresses[hostPort(g.Target)]
	r.dials++
	r.mu.Unlock()
	if !ok {
		return nil, "", &Refusal{Failed: true, Reason: g.Host + " does not resolve"}
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, "", &Refusal{Failed: true, Reason: err.Error()}
	}
	return c, addr, nil
}

// Done implements Hooks.
func (r *rig) Done(e Exchange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exchanges = append(r.exchanges, e)
}

// last returns the last exchange.
func (r *rig) last() Exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.exchanges) == 0 {
		return Exchange{}
	}
	return r.exchanges[len(r.exchanges)-1]
}

// https starts a server with a certificate for names, and makes it the one of each of them.
func (r *rig) https(h http.Handler, names ...string) *httptest.Server {
	r.t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		return r.world.Leaf(strings.ToLower(hello.ServerName))
	}}
	s.StartTLS()
	r.t.Cleanup(s.Close)
	for _, n := range names {
		r.addresses[net.JoinHostPort(n, "443")] = s.Listener.Addr().String()
	}
	return s
}

// http starts a server in clear.
func (r *rig) http(h http.Handler, names ...string) *httptest.Server {
	r.t.Helper()
	s := httptest.NewServer(h)
	r.t.Cleanup(s.Close)
	for _, n := range names {
		r.addresses[net.JoinHostPort(n, "80")] = s.Listener.Addr().String()
	}
	return s
}

// pair returns the two ends of a connection.
func pair(t testing.TB) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

func target(t testing.TB, addr string) policy.Target {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	n, _ := strconv.Atoi(port)
	to, err := policy.NewTarget(host, n)
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// open returns a connection that was captured on its way to addr, and what Serve returns.
func (r *rig) open(addr string) (net.Conn, <-chan error) {
	r.t.Helper()
	near, far := pair(r.t)
	done := make(chan error, 1)
	g := Grant{Target: target(r.t, addr), Class: r.classes[addr]}
	go func() { done <- r.server.Serve(r.t.Context(), far, g, r) }()
	_ = near.SetDeadline(time.Now().Add(patience.Of(20 * time.Second)))
	return near, done
}

// client returns an HTTP client inside the sandbox.
func (r *rig) client() *http.Client {
	tr := &http.Transport{
		DialContext: func(_ context.Context, _, addr string) (net.Conn, error) {
			c, _ := r.open(addr)
			return c, nil
		},
		TLSClientConfig:   &tls.Config{RootCAs: r.trust},
		ForceAttemptHTTP2: true,
	}
	r.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience.Of(20 * time.Second)}
}

// h1 returns a client that does not use HTTP/2.
func (r *rig) h1() *http.Client {
	c := r.client()
	tr := c.Transport.(*http.Transport)
	tr.ForceAttemptHTTP2 = false
	tr.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	return c
}

// get returns the status and the body of an answer.
func get(t testing.TB, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body(t, resp)
}

func body(t testing.TB, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// wantRefusal waits for what Serve returns.
func wantRefusal(t testing.TB, done <-chan error) *Refusal {
	t.Helper()
	select {
	case err := <-done:
		var r *Refusal
		if !errors.As(err, &r) {
			t.Fatalf("Serve returned %v, not a refusal", err)
		}
		return r
	case <-time.After(patience.Of(20 * time.Second)):
		t.Fatal("the connection was not refused")
		return nil
	}
}

// echo answers with what it got.
func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Proto", r.Proto)
	w.Header().Set("X-Host", r.Host)
	io.Copy(w, r.Body)
}
