package kubernetes

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/guest/dialout"
)

const (
	// maxStrangers is the maximum number of connections that have not proved yet which guest they are of.
	maxStrangers = 512
	// maxIdle is the maximum number of waiting connections of a guest.
	maxIdle = 2 * dialout.Idle
	// headTime is the maximum time of a request of a guest, and of the answer to a request to it.
	headTime = 15 * time.Second
	// takeTime is how long a stream waits for a guest to connect, which it repeats every dialout's maximum of 2 seconds.
	takeTime = 6 * time.Second
)

// guests accepts the connections of guests, and hands them to those who open streams.
type guests struct {
	pin      string // of the certificate
	listener net.Listener
	server   *http.Server
	log      *slog.Logger
	serving  sync.WaitGroup

	strange   sync.Mutex
	count     int                   // of the connections in strangers
	strangers map[string][]net.Conn // by their IP address, the oldest first

	mu    sync.Mutex
	known map[string]*line // by the name of the guest
}

// line is what connects to one guest.
type line struct {
	token   string
	ticket  string // "" when it was used
	config  []byte // what the ticket is exchanged for; nil until Boot
	most    bounds
	refused error  // why the guest does not get its configuration
	away    string // why it may never connect
	started chan struct{}
	idle    []net.Conn
	changed chan struct{} // closed, and replaced, when idle or config changes
	ended   bool
}

// bounds are the highest limits that the control group of a guest may have: bytes of memory, and thousandths of a processor.
type bounds struct{ memory, cpu int64 }

// refusal says what the cluster does not enforce, by what the guest has tried and read; nil if it enforces everything.
func (b bounds) refusal(name string, report http.Header) error {
	if reached := report[dialout.HeaderReached]; len(reached) > 0 {
		return api.Errorf(api.KindUnisolated, "the cluster does not enforce the network policy of sandboxes: pod %s could connect to %s", name, strings.Join(reached, ", ")).
			WithHint("install a network plugin that enforces NetworkPolicy, or set kubernetes.internet to allow all connections")
	}
	var has bounds
	_, _ = fmt.Sscan(report.Get(dialout.HeaderLimits), &has.memory, &has.cpu) // what cannot be read stays 0, which is no limit
	if has.memory <= 0 || has.memory > b.memory || has.cpu <= 0 || has.cpu > b.cpu {
		return api.Errorf(api.KindUnisolated, "the cluster does not enforce the limits of sandboxes: the control group of pod %s has limits of %d bytes of memory and %d thousandths of a processor, where 0 is none; the maximum is %d and %d",
			name, has.memory, has.cpu, b.memory, b.cpu).WithHint("set cpuCFSQuota of the kubelet, and let the runtime of kubernetes.runtime-class use control groups")
	}
	return nil
}

// listen accepts guests at an address. The key is made of 32 secret bytes.
func listen(address string, seed []byte, log *slog.Logger) (*guests, error) {
	key := ed25519.NewKeyFromSeed(seed)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hortus"}, NotBefore: time.Unix(0, 0), NotAfter: time.Now().AddDate(100, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	lc := net.ListenConfig{KeepAliveConfig: dialout.KeepAlive()}
	l, err := lc.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "kubernetes.listen: %w", err)
	}
	g := &guests{pin: hex.EncodeToString(dialout.Pin(cert.RawSubjectPublicKeyInfo)), listener: l, log: log, known: map[string]*line{}, strangers: map[string][]net.Conn{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+dialout.PathStart, g.start)
	mux.HandleFunc("GET "+dialout.PathStream, g.stream)
	g.server = &http.Server{
		Handler: mux, ReadHeaderTimeout: headTime, ReadTimeout: headTime, WriteTimeout: 4 * headTime, IdleTimeout: headTime, MaxHeaderBytes: 8 << 10,
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		ConnState: g.state,
	}
	secure := tls.NewListener(l, &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	})
	g.serving.Go(func() {
		if err := g.server.Serve(secure); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the listener for guests of pods has ended", "error", err)
		}
	})
	return g, nil
}

// state keeps the connections without a proof below the maximum: it closes the oldest one of the address that has most of
// them. So a pod whose commands make connections all the time keeps no guest of another pod out.
func (g *guests) state(c net.Conn, state http.ConnState) {
	from, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	g.strange.Lock()
	defer g.strange.Unlock()
	switch state {
	case http.StateNew:
		g.strangers[from] = append(g.strangers[from], c)
		if g.count++; g.count > maxStrangers {
			most := from
			for a, list := range g.strangers {
				if len(list) > len(g.strangers[most]) {
					most = a
				}
			}
			// Its own state removes it. This closes the connection below TLS: an alert could block.
			g.strangers[most][0].(*tls.Conn).NetConn().Close()
			g.strangers[most] = append(g.strangers[most][1:], g.strangers[most][0])
		}
	case http.StateHijacked, http.StateClosed:
		list := slices.DeleteFunc(g.strangers[from], func(o net.Conn) bool { return o == c })
		g.count -= len(g.strangers[from]) - len(list)
		if g.strangers[from] = list; len(list) == 0 {
			delete(g.strangers, from)
		}
	}
}

// close ends all connections.
func (g *guests) close() error {
	err := g.server.Close()
	g.serving.Wait()
	g.mu.Lock()
	names := make([]string, 0, len(g.known))
	for name := range g.known {
		names = append(names, name)
	}
	g.mu.Unlock()
	for _, name := range names {
		g.forget(name)
	}
	return err
}

// expect makes a guest known. ticket is "" for one that has started.
func (g *guests) expect(name, token, ticket string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known[name] == nil {
		g.known[name] = &line{token: token, ticket: ticket, started: make(chan struct{}), changed: make(chan struct{})}
	}
}

// bound sets the highest limits of a guest's control group. Without it the guest is refused.
func (g *guests) bound(name string, most bounds) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := g.known[name]; l != nil {
		l.most = most
	}
}

// dials sets why a guest may never connect; "" if nothing is known.
func (g *guests) dials(name, away string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := g.known[name]; l != nil {
		l.away = away
	}
}

// forget ends the connections of a guest that wait.
func (g *guests) forget(name string) {
	g.mu.Lock()
	l := g.known[name]
	delete(g.known, name)
	if l != nil {
		l.ended = true
		l.signal()
	}
	g.mu.Unlock()
	if l != nil {
		for _, c := range l.idle {
			c.Close()
		}
	}
}

// signal wakes those who wait. The caller holds mu.
func (l *line) signal() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// configure gives a guest its configuration, and waits until it has fetched it.
func (g *guests) configure(ctx context.Context, name string, config []byte) error {
	g.mu.Lock()
	l := g.known[name]
	if l != nil {
		l.config = config
		l.signal()
	}
	g.mu.Unlock()
	if l == nil {
		return api.Errorf(api.KindInternal, "pod %s is not known", name)
	}
	select {
	case <-l.started:
	case <-ctx.Done():
		return ctx.Err()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return l.refused
}

// bearer is the secret of a request.
func bearer(r *http.Request) string {
	secret, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return secret
}

func same(a, b string) bool {
	return b != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

// start exchanges a ticket for a configuration.
func (g *guests) start(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	l := g.known[r.Header.Get(dialout.HeaderName)]
	if l == nil || !same(bearer(r), l.ticket) {
		g.mu.Unlock()
		http.Error(w, "the ticket is not valid, or was used", http.StatusForbidden)
		return
	}
	if l.config == nil { // its pod was faster than the answer of the API server
		g.mu.Unlock()
		http.Error(w, "not yet", http.StatusServiceUnavailable)
		return
	}
	l.ticket = ""
	config, token := l.config, l.token
	refused := l.most.refusal(r.Header.Get(dialout.HeaderName), r.Header)
	l.config, l.refused = nil, refused
	close(l.started)
	g.mu.Unlock()
	if refused != nil {
		http.Error(w, "the cluster does not isolate this guest", http.StatusForbidden)
		return
	}
	w.Header().Set(dialout.HeaderToken, token)
	w.Header().Set("Content-Length", strconv.Itoa(len(config)))
	_, _ = w.Write(config)
}

// stream keeps a connection until a stream is opened.
func (g *guests) stream(w http.ResponseWriter, r *http.Request) {
	name := r.Header.Get(dialout.HeaderName)
	g.mu.Lock()
	l := g.known[name]
	ok := l != nil && same(bearer(r), l.token)
	g.mu.Unlock()
	switch {
	case l == nil: // perhaps its sandbox is adopted in a moment
		http.Error(w, "unknown", http.StatusServiceUnavailable)
		return
	case !ok:
		http.Error(w, "the token is not valid", http.StatusForbidden)
		return
	}
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	c.SetDeadline(time.Now().Add(headTime))
	_, err = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+dialout.Protocol+"\r\n\r\n")
	if err != nil || rw.Reader.Buffered() > 0 { // the guest has nothing to say yet
		c.Close()
		return
	}
	c.SetDeadline(time.Time{})
	g.mu.Lock()
	var old net.Conn
	if l.ended {
		old = c
	} else {
		l.idle = append(l.idle, c)
		if len(l.idle) > maxIdle {
			old, l.idle = l.idle[0], l.idle[1:]
		}
		l.signal()
	}
	g.mu.Unlock()
	if old != nil {
		old.Close()
	}
}

// take waits for a connection to a guest.
func (g *guests) take(ctx context.Context, name string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, takeTime)
	defer cancel()
	for {
		g.mu.Lock()
		l := g.known[name]
		if l == nil {
			g.mu.Unlock()
			return nil, errors.New("the pod is not known")
		}
		if n := len(l.idle); n > 0 {
			c := l.idle[n-1] // the newest is the least likely to be dead
			l.idle = l.idle[:n-1]
			g.mu.Unlock()
			return c, nil
		}
		changed, away := l.changed, l.away
		g.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			if away != "" {
				return nil, errors.New("the guest is not connected: " + away)
			}
			return nil, errors.New("the guest is not connected")
		}
	}
}

// RoundTrip opens a stream to the guest that is the host of the request. It implements http.RoundTripper.
func (g *guests) RoundTrip(r *http.Request) (*http.Response, error) {
	for {
		c, err := g.take(r.Context(), r.URL.Host)
		if err != nil {
			return nil, err
		}
		resp, err := exchange(r, c)
		if err == nil {
			return resp, nil
		}
		c.Close() // it was dead: there may be another
		if r.Context().Err() != nil {
			return nil, err
		}
	}
}

// exchange sends a request on a connection. After an upgrade the body is the connection.
func exchange(r *http.Request, c net.Conn) (*http.Response, error) {
	stop := context.AfterFunc(r.Context(), func() { c.SetDeadline(time.Unix(1, 0)) })
	c.SetDeadline(time.Now().Add(headTime))
	if err := r.Write(c); err != nil {
		stop()
		return nil, err
	}
	head := &io.LimitedReader{R: c, N: 64 << 10}
	br := bufio.NewReader(head)
	resp, err := http.ReadResponse(br, r)
	if !stop() && err == nil {
		err = r.Context().Err()
	}
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		c.SetDeadline(time.Time{})
		head.N = 1<<63 - 1
		// The end of the request's context closes the connection.
		end := context.AfterFunc(r.Context(), func() { c.Close() })
		resp.Body = &upgraded{Conn: c, r: br, stop: end}
	}
	return resp, nil
}

// upgraded is a connection of which some bytes were read.
type upgraded struct {
	net.Conn
	r    *bufio.Reader
	stop func() bool
}

func (u *upgraded) Read(p []byte) (int, error) { return u.r.Read(p) }

func (u *upgraded) Close() error {
	u.stop()
	return u.Conn.Close()
}
