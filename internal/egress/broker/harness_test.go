package broker

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/egress/authority"
	"hortus.dev/internal/egress/policy"
	"hortus.dev/internal/egress/web"
	"hortus.dev/test/patience"
)

// secretValue has characters that encodings change.
const secretValue = `v4l/ue+with"odd&chars=<0123456789>`

var long = patience.Of(20 * time.Second)

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

// rig is a sandbox's connections with a broker, to servers on loopback.
type rig struct {
	t       testing.TB
	broker  *Broker
	session *Session
	server  *web.Server
	trust   *x509.CertPool
	world   *authority.CA
	roots   *x509.CertPool
	cached  int // requests that the cache was asked about

	mu        sync.Mutex
	addresses map[string]string // "host:port" to the address of a test's server
	classes   map[string]api.EgressClass
	values    map[string]string
	fetched   int
	uses      []secrets.Use
}

func newRig(t testing.TB, change ...func(*Config)) *rig {
	_, trust := newCA(t, 1)
	world, roots := newCA(t, 2)
	r := &rig{t: t, trust: trust, world: world, roots: roots, addresses: map[string]string{}, classes: map[string]api.EgressClass{}, values: map[string]string{}}
	cfg := Config{
		Value: func(_ context.Context, account, name string) (string, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.fetched++
			v, ok := r.values[name]
			if !ok || account != "acc" {
				return "", errors.New("no value")
			}
			return v, nil
		},
		Record: func(u secrets.Use) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.uses = append(r.uses, u)
		},
	}
	for _, c := range change {
		c(&cfg)
	}
	r.broker = New(cfg)
	r.serve(Owner{Sandbox: "sbx_1", Task: "task_1", Account: "acc", Commands: func() []string { return []string{"curl"} }})
	return r
}

// serve makes the rig that of a sandbox.
func (r *rig) serve(o Owner) {
	ca, _ := newCA(r.t, 1)
	session := r.broker.Session(o)
	server := web.New(web.Config{Leaf: ca.Leaf, Roots: r.roots, Broker: session.RoundTrip, Refused: session.Refused, Watch: session.Watch,
		Cache: func(req *http.Request, _ web.Grant, next http.RoundTripper) (*http.Response, error) {
			r.mu.Lock()
			r.cached++
			r.mu.Unlock()
			return next.RoundTrip(req)
		}})
	r.t.Cleanup(func() { server.Close(); session.Close() })
	r.session, r.server = session, server
}

// Connect implements web.Hooks.
func (r *rig) Connect(_ context.Context, t policy.Target, _ bool) (web.Grant, error) {
	if refusal := r.session.CheckName(t.Host, t.Port); refusal != nil {
		return web.Grant{}, refusal
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return web.Grant{Target: t, Class: r.classes[net.JoinHostPort(t.Host, strconv.Itoa(t.Port))]}, nil
}

// Request implements web.Hooks.
func (r *rig) Request(_ context.Context, g web.Grant, _, path string) (web.Grant, error) {
	if strings.HasPrefix(path, "/denied") {
		return g, &web.Refusal{Reason: "the request was refused: denied by a rule"}
	}
	return g, nil
}

// Dial implements web.Hooks.
func (r *rig) Dial(ctx context.Context, g web.Grant) (net.Conn, string, error) {
	r.mu.Lock()
	addr, ok := r.addresses[net.JoinHostPort(g.Host, strconv.Itoa(g.Port))]
	r.mu.Unlock()
	if !ok {
		return nil, "", &web.Refusal{Failed: true, Reason: g.Host + " does not resolve"}
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	return c, addr, err
}

// Done implements web.Hooks.
func (r *rig) Done(web.Exchange) {}

// https starts a server with certificates for any name, and makes it that of each address.
func (r *rig) https(h http.Handler, addresses ...string) {
	r.t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		return r.world.Leaf(strings.ToLower(hello.ServerName))
	}}
	s.StartTLS()
	r.t.Cleanup(s.Close)
	for _, a := range addresses {
		r.addresses[a] = s.Listener.Addr().String()
	}
}

// http starts a server in clear.
func (r *rig) http(h http.Handler, addresses ...string) {
	r.t.Helper()
	s := httptest.NewServer(h)
	r.t.Cleanup(s.Close)
	for _, a := range addresses {
		r.addresses[a] = s.Listener.Addr().String()
	}
}

// open returns a connection that was captured on its way to addr.
func (r *rig) open(addr string) net.Conn {
	r.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { near.Close(); far.Close() })
	host, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port)
	to, err := policy.NewTarget(host, n)
	if err != nil {
		r.t.Fatal(err)
	}
	g, err := r.Connect(r.t.Context(), to, false)
	if err != nil {
		far.Close()
		return near
	}
	go r.server.Serve(r.t.Context(), far, g, r)
	_ = near.SetDeadline(time.Now().Add(long))
	return near
}

// client returns an HTTP client inside the sandbox.
func (r *rig) client(http2 bool) *http.Client {
	tr := &http.Transport{
		DialContext:     func(_ context.Context, _, addr string) (net.Conn, error) { return r.open(addr), nil },
		TLSClientConfig: &tls.Config{RootCAs: r.trust}, ForceAttemptHTTP2: http2, DisableCompression: true,
	}
	if !http2 {
		tr.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	r.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: long, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// grant gives the session secrets, and returns their placeholders.
func (r *rig) grant(secrets ...secrets.Secret) []string {
	r.t.Helper()
	var grants []Grant
	var out []string
	for _, s := range secrets {
		g := Grant{Placeholder: NewPlaceholder(), Secret: s}
		grants, out = append(grants, g), append(out, g.Placeholder)
		r.mu.Lock()
		if _, ok := r.values[s.Name]; !ok {
			r.values[s.Name] = secretValue
		}
		r.mu.Unlock()
	}
	if err := r.session.SetGrants(grants); err != nil {
		r.t.Fatal(err)
	}
	return out
}

// alarms returns what was refused since the last call.
func (r *rig) alarms() (refused, used []secrets.Use) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range r.uses {
		if u.Refused != "" {
			refused = append(refused, u)
		} else {
			used = append(used, u)
		}
	}
	r.uses = nil
	return refused, used
}

// bearer is a secret in a header of api.example.org.
func bearer(name string, paths ...string) secrets.Secret {
	return secrets.Secret{Name: name, Bindings: []secrets.Binding{{Host: "api.example.org", Paths: paths, In: secrets.Place{Kind: secrets.InHeader, Name: "Authorization"}}}}
}

// sink is a server that keeps all that it gets, and echoes what the path says.
type sink struct {
	mu  sync.Mutex
	log strings.Builder
}

// ServeHTTP implements http.Handler.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	fmt.Fprintln(&s.log, r.Method, r.Host, r.RequestURI, unescape(r.RequestURI), r.Header, string(body), r.Trailer, err)
	if user, password, ok := r.BasicAuth(); ok {
		fmt.Fprintln(&s.log, "basic", user, password)
	}
	s.mu.Unlock()
	io.WriteString(w, "fine")
}

// take returns what came since the last call.
func (s *sink) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.log.Reset()
	return s.log.String()
}

func readAll(t testing.TB, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// request makes a request; the body may be nil.
func request(t testing.TB, method, url string, body io.Reader, header ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for pair := range slices.Chunk(header, 2) {
		r.Header[pair[0]] = append(r.Header[pair[0]], pair[1])
	}
	return r
}

// textLogger writes a log as text.
func textLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
