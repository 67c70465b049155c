package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/egress"
	"hortus.dev/internal/egress/authority"
	"hortus.dev/internal/egress/dial"
	"hortus.dev/test/patience"
)

var long = patience.Of(20 * time.Second)

// link is a tether whose guest is the test.
type link struct {
	t       testing.TB
	streams chan net.Conn
	errs    chan error // what Accept returns next

	mu      sync.Mutex
	waiting int
	calls   int
}

func newLink(t testing.TB) *link {
	return &link{t: t, streams: make(chan net.Conn), errs: make(chan error)}
}

func (l *link) Open(context.Context) (net.Conn, error)  { return nil, errors.ErrUnsupported }
func (l *link) Quiesce(context.Context) (func(), error) { return nil, errors.ErrUnsupported }
func (l *link) Close() error                            { return nil }
func (l *link) Accept(ctx context.Context) (net.Conn, error) {
	l.mu.Lock()
	l.waiting++
	l.calls++
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.waiting--
		l.mu.Unlock()
	}()
	select {
	case c := <-l.streams:
		return c, nil
	case err := <-l.errs:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *link) pending() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting
}

// open opens a stream, as the guest does.
func (l *link) open() net.Conn {
	l.t.Helper()
	path := filepath.Join(l.t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		l.t.Fatal(err)
	}
	defer ln.Close()
	near, err := net.Dial("unix", path)
	if err != nil {
		l.t.Fatal(err)
	}
	far, err := ln.Accept()
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { near.Close(); far.Close() })
	select {
	case l.streams <- far:
	case <-time.After(long):
		l.t.Fatal("the host accepts no stream")
	}
	_ = near.SetDeadline(time.Now().Add(long))
	return near
}

// ask sends a request over a stream and returns the answer.
func ask(t testing.TB, c net.Conn, req envd.EgressRequest) envd.EgressAnswer {
	t.Helper()
	b, _ := json.Marshal(req)
	if _, err := c.Write(append(b, '\n')); err != nil {
		t.Fatal(err)
	}
	return readAnswer(t, c)
}

func readAnswer(t testing.TB, c net.Conn) envd.EgressAnswer {
	t.Helper()
	var line []byte
	for one := make([]byte, 1); ; {
		if _, err := io.ReadFull(c, one); err != nil {
			t.Fatalf("no answer: %v after %q", err, line)
		}
		if one[0] == '\n' {
			break
		}
		line = append(line, one[0])
	}
	var a envd.EgressAnswer
	if err := json.Unmarshal(line, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// connect opens a stream for a connection.
func (l *link) connect(name string, port int) (net.Conn, envd.EgressAnswer) {
	l.t.Helper()
	c := l.open()
	return c, ask(l.t, c, envd.EgressRequest{Op: envd.EgressConnect, Name: name, Port: port})
}

// records is a Recorder.
type records struct {
	mu    sync.Mutex
	all   []api.EgressDecision
	added chan struct{} // closed, and replaced, with each record
}

func newRecords() *records { return &records{added: make(chan struct{})} }

func (r *records) Record(d api.EgressDecision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, d)
	close(r.added)
	r.added = make(chan struct{})
}

func (r *records) list() []api.EgressDecision {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]api.EgressDecision(nil), r.all...)
}

// find waits for a record.
func (r *records) find(t testing.TB, what string, is func(api.EgressDecision) bool) api.EgressDecision {
	t.Helper()
	timeout := time.After(long)
	for {
		r.mu.Lock()
		added := r.added
		for _, d := range r.all {
			if is(d) {
				r.mu.Unlock()
				return d
			}
		}
		r.mu.Unlock()
		select {
		case <-added:
		case <-timeout:
			t.Fatalf("no record: %s. There are: %+v", what, r.list())
		}
	}
}

func (r *records) op(t testing.TB, op string, result api.EgressResult) api.EgressDecision {
	t.Helper()
	return r.find(t, op+" "+string(result), func(d api.EgressDecision) bool { return d.Op == op && d.Result == result })
}

// names is a resolver.
type names struct {
	mu    sync.Mutex
	addrs map[string]string
	block chan struct{} // "slow.example" resolves when it is closed
}

func (n *names) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	host = strings.TrimSuffix(host, ".")
	if strings.HasPrefix(host, "slow") {
		select {
		case <-n.block:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	a, ok := n.addrs[host]
	if !ok {
		a = "127.0.0.1"
	}
	if a == "" {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{netip.MustParseAddr(a)}, nil
}

// rig is a Gateway whose servers are on loopback.
type rig struct {
	t       testing.TB
	gateway *Gateway
	records *records
	names   *names
	trust   *x509.CertPool // what clients in the sandbox trust
	world   *authority.CA
}

func newCA(t testing.TB, secret byte, lineage string) (*authority.Authority, *authority.CA, *x509.CertPool) {
	t.Helper()
	a, err := authority.New(bytes.Repeat([]byte{secret}, 32))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := a.CA(lineage)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.PEM())
	return a, ca, pool
}

func newRig(t testing.TB, change ...func(*Config)) *rig {
	r := &rig{t: t, records: newRecords(), names: &names{addrs: map[string]string{}, block: make(chan struct{})}}
	auth, _, trust := newCA(t, 1, "lin_1")
	_, world, roots := newCA(t, 2, "world")
	r.trust, r.world = trust, world
	cfg := Config{
		Dialer: dial.New(dial.Config{Resolver: r.names}), Authority: auth, Recorder: r.records, Roots: roots,
		Logger: slog.New(slog.DiscardHandler), fold: 50 * time.Millisecond,
	}
	for _, c := range change {
		c(&cfg)
	}
	r.gateway = New(cfg)
	return r
}

// serve starts a session.
func (r *rig) serve(p api.EgressPolicy) (*Session, *link) {
	r.t.Helper()
	l := newLink(r.t)
	s, err := r.gateway.Serve(egress.Peer{
		Sandbox: "sbx_1", Task: "task_1", Account: "acc", Lineage: "lin_1", Link: l,
		Commands: func() []string { return []string{"npm install"} },
	}, p)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(s.Close)
	return s, l
}

// allow is a rule for a host of the test.
func allow(host string, port int, class api.EgressClass) api.EgressRule {
	return api.EgressRule{Action: api.EgressAllow, Host: host, Ports: strconv.Itoa(port), Class: class, Private: true}
}

func rules(all ...api.EgressRule) api.EgressPolicy { return api.EgressPolicy{Rules: all} }

// https starts a server and returns its port.
func (r *rig) https(h http.Handler) int {
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) { return r.world.Leaf(hello.ServerName) }}
	s.StartTLS()
	r.t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}

func (r *rig) http(h http.Handler) int {
	s := httptest.NewServer(h)
	r.t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}

// tcp starts a server that echoes, and returns its port.
func (r *rig) tcp() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(c, c)
				c.Close()
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// client is an HTTP client in the sandbox.
func (r *rig) client(l *link) *http.Client {
	tr := &http.Transport{
		DialContext: func(_ context.Context, _, addr string) (net.Conn, error) {
			host, port, _ := net.SplitHostPort(addr)
			n, _ := strconv.Atoi(port)
			c, a := l.connect(host, n)
			if !a.OK {
				return nil, errors.New(a.Error)
			}
			return c, nil
		},
		TLSClientConfig: &tls.Config{RootCAs: r.trust}, ForceAttemptHTTP2: true,
	}
	r.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: long}
}

func get(t testing.TB, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// ended waits until a stream ends.
func ended(t testing.TB, c net.Conn) {
	t.Helper()
	if _, err := io.Copy(io.Discard, c); errors.Is(err, context.DeadlineExceeded) {
		t.Fatal("the stream is still open")
	}
	var ne net.Error
	if _, err := c.Read(make([]byte, 1)); errors.As(err, &ne) && ne.Timeout() {
		t.Fatal("the stream is still open")
	}
}

// until waits until a condition holds.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(long); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("not reached: " + what)
		}
		time.Sleep(time.Millisecond)
	}
}
