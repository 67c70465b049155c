package check

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// Servers are the real servers that sandboxes try to reach. They listen on the host, record what
// they get, and answer. They end with Close.
type Servers struct {
	journal *journal
	names   names
	// lies is true if the daemon resolves with these servers and trusts their authority.
	lies  bool
	roots []byte

	// Ports at the address of the name. The policy of the suite allows web, tls, path, naiveCL
	// and naiveTE as class web, raw as tcp, pass as passthrough, and public without private
	// addresses. It has no rule for closed and rawClosed.
	web, tls, path, naiveCL, naiveTE, raw, pass, public, closed, rawClosed int
	// Ports at an address of the host that is not loopback, if it has one: own is allowed,
	// ownClosed is not.
	own, ownClosed int
	unixPath       string
	unixAbstract   string
	// udp is the port of datagrams, at every address of the servers.
	udp int

	hold    gate
	dir     string
	closers []io.Closer
	all     sync.WaitGroup
	conns   connections
}

// NewServers starts the servers. With lies the daemon must resolve names with LookupNetIP and
// trust Roots; otherwise names are taken from the host's /etc/hosts, and rows that need more are
// not applicable.
func NewServers(lies bool) (*Servers, error) {
	s := &Servers{journal: new(journal), lies: lies, conns: connections{open: map[net.Conn]struct{}{}}}
	s.names = hostNames()
	if lies {
		s.names = testNames(s.names.own)
	}
	if err := s.start(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Roots is the authority of the TLS servers in PEM.
func (s *Servers) Roots() []byte { return s.roots }

func (s *Servers) start() error {
	cert, roots, err := certificate(s.names.open, frontName, otherName)
	if err != nil {
		return err
	}
	s.roots = roots
	at := s.names.listen
	keep := func(port *int, addr netip.Addr, serve func(net.Listener)) {
		if err != nil {
			return
		}
		var l net.Listener
		if l, err = net.Listen("tcp", netip.AddrPortFrom(addr, 0).String()); err != nil {
			return
		}
		*port = l.Addr().(*net.TCPAddr).Port
		s.closers = append(s.closers, l)
		s.all.Go(func() { serve(l) })
	}
	plain := func(l net.Listener) { s.serveHTTP(l) }
	secure := func(l net.Listener) { s.serveHTTP(tls.NewListener(l, s.tlsConfig(cert))) }
	for _, p := range []*int{&s.web, &s.path, &s.public, &s.closed} {
		keep(p, at, plain)
	}
	keep(&s.tls, at, secure)
	keep(&s.pass, at, secure)
	keep(&s.raw, at, s.serveRaw)
	keep(&s.rawClosed, at, s.serveRaw)
	keep(&s.naiveCL, at, func(l net.Listener) { s.serveNaive(l, naive{te: false}) })
	keep(&s.naiveTE, at, func(l net.Listener) { s.serveNaive(l, naive{te: true}) })
	if s.names.own.IsValid() {
		keep(&s.own, s.names.own, s.serveRaw)
		keep(&s.ownClosed, s.names.own, s.serveRaw)
	}
	if err != nil {
		return err
	}
	return errors.Join(s.startUnix(), s.startPackets(at))
}

// startUnix listens on a socket with a path and on an abstract one.
func (s *Servers) startUnix() (err error) {
	if s.dir, err = os.MkdirTemp("", "hortus-egress"); err != nil {
		return err
	}
	if err := os.Chmod(s.dir, 0o755); err != nil {
		return err
	}
	s.unixPath, s.unixAbstract = filepath.Join(s.dir, "socket"), "@hortus-egress-"+newToken()
	for _, name := range []string{s.unixPath, s.unixAbstract} {
		l, err := net.Listen("unix", name)
		if err != nil {
			return err
		}
		s.closers = append(s.closers, l)
		s.all.Go(func() { s.serveRaw(l) })
	}
	return os.Chmod(s.unixPath, 0o777)
}

// startPackets receives datagrams, at the port of the TLS server: QUIC would use it.
func (s *Servers) startPackets(at netip.Addr) error {
	s.udp = s.tls
	addrs := []netip.Addr{at}
	if s.names.own.IsValid() && s.names.own != at {
		addrs = append(addrs, s.names.own)
	}
	for i, a := range addrs {
		p, err := net.ListenPacket("udp", net.JoinHostPort(a.String(), strconv.Itoa(s.udp)))
		if err != nil && i > 0 {
			continue // another program has the port at that address
		}
		if err != nil {
			return err
		}
		s.closers = append(s.closers, p)
		s.all.Go(func() { s.packets("UDP server", p) })
	}
	// Only root may see what arrives as ICMP.
	if p, err := net.ListenPacket("ip4:icmp", "0.0.0.0"); err == nil {
		s.closers = append(s.closers, p)
		s.names.icmp = true
		s.all.Go(func() { s.packets("ICMP", p) })
	}
	return nil
}

func (s *Servers) packets(what string, p net.PacketConn) {
	buf := make([]byte, 4096)
	for {
		n, from, err := p.ReadFrom(buf)
		if err != nil {
			return
		}
		s.journal.add(what, string(buf[:n]))
		if what != "ICMP" {
			_, _ = p.WriteTo(buf[:n], from)
		}
	}
}

// Close ends the servers and their connections, and waits for them.
func (s *Servers) Close() {
	for _, c := range s.closers {
		c.Close()
	}
	s.hold.open()
	s.conns.close()
	s.all.Wait()
	if s.dir != "" {
		os.RemoveAll(s.dir)
	}
}

// serveRaw echoes. It records what it gets.
func (s *Servers) serveRaw(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		s.all.Go(func() {
			defer s.conns.add(c)()
			buf := make([]byte, 4096)
			hold := false
			for {
				n, err := c.Read(buf)
				if n > 0 {
					hold = hold || string(buf[:n]) == floodText
					s.journal.add("server "+l.Addr().String(), string(buf[:n]))
					if _, err := c.Write(buf[:n]); err != nil {
						return
					}
				}
				if err != nil {
					if hold && errors.Is(err, io.EOF) {
						s.hold.wait() // half of the connection stays open
					}
					return
				}
			}
		})
	}
}

// redirectPath is where serveHTTP redirects requests to their "to".
const redirectPath = "/redirect"

// serveHTTP answers requests.
func (s *Servers) serveHTTP(l net.Listener) {
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != redirectPath { // whose query has the token of what comes next
				s.journal.add("HTTP server", fmt.Sprintf("%s %s Host: %s Header: %v", r.Method, r.URL, r.Host, r.Header))
			}
			if to := r.URL.Query().Get("to"); to != "" {
				w.Header().Set("Location", to)
				w.WriteHeader(http.StatusFound)
				return
			}
			fmt.Fprintf(w, "reached %s\n", r.Host)
		}),
		ReadHeaderTimeout: time.Minute, ErrorLog: quiet(),
		Protocols: protocols(),
	}
	s.conns.later(srv)
	_ = srv.Serve(l)
}

// tlsConfig records every ClientHello.
func (s *Servers) tlsConfig(cert tls.Certificate) *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			s.journal.add("TLS server", "ClientHello for "+h.ServerName)
			return nil, nil
		},
	}
}

// LookupNetIP resolves the names of the suite, and records every question. It implements
// dial.Resolver.
func (s *Servers) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	s.journal.add("resolver", host)
	return s.names.lookup(host)
}

// connections are open connections and servers, which Close ends.
type connections struct {
	mu     sync.Mutex
	open   map[net.Conn]struct{}
	srvs   []*http.Server
	closed bool
}

// add registers a connection. The function that it returns closes it.
func (c *connections) add(nc net.Conn) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		nc.Close()
	}
	c.open[nc] = struct{}{}
	return func() {
		nc.Close()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, nc)
	}
}

// later registers a server.
func (c *connections) later(srv *http.Server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.srvs = append(c.srvs, srv)
	if c.closed {
		srv.Close()
	}
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for nc := range c.open {
		nc.Close()
	}
	for _, srv := range c.srvs {
		srv.Close()
	}
}
