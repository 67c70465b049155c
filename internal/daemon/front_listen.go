package daemon

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/door/guestproxy"
	"hortus.dev/internal/door/strict"
)

// Front says how a daemon is reached over TCP.
type Front struct {
	// Listen is HOST:PORT; empty for no listener. Port 0 takes any.
	Listen string
	// Insecure allows a HOST that others than this machine reach. What is sent there
	// can be read on the way, API keys too.
	Insecure bool
	// FirstKey makes a key where there never was one, and has Announce told.
	FirstKey bool
	// Announce is told where the daemon is reached, and the first key; its Secret is
	// empty where none was made.
	Announce func(url string, first api.CreatedKey)
	// Bounds keep what clients hold within limits.
	Bounds Bounds
}

// Bounds are what the clients of the TCP listener may hold, and for how long. What is 0
// has a default. Streams that are served have no bound in time.
type Bounds struct {
	// Conns bounds the connections, PerAddress those of one address that is not this
	// machine's own: behind those there may be a proxy.
	Conns, PerAddress int
	// Head bounds the wait for a request's head, all of it, and Keep that for the next
	// request of a connection.
	Head, Keep time.Duration
	// Rest bounds what follows once a request has been dealt with: reading what is left
	// of its body, and sending what is left of the answer.
	Rest time.Duration
	// Grace is what a client has, from the end of its sandbox on, to take what is left
	// of an answer.
	Grace time.Duration
	// HeadBytes bounds a request's head.
	HeadBytes int
}

// orDefault fills in what was not set.
func (b Bounds) orDefault() Bounds {
	return Bounds{
		Conns: cmp.Or(b.Conns, maxConns), PerAddress: cmp.Or(b.PerAddress, maxConns/2),
		Head: cmp.Or(b.Head, headTimeout), Keep: cmp.Or(b.Keep, keepTimeout), Rest: cmp.Or(b.Rest, restTimeout),
		Grace: cmp.Or(b.Grace, guestproxy.DefaultGrace), HeadBytes: cmp.Or(b.HeadBytes, maxHead),
	}
}

// FirstAccount owns what is made with the first key.
const FirstAccount = "default"

const (
	maxConns    = 4096
	headTimeout = 10 * time.Second
	keepTimeout = 2 * time.Minute
	restTimeout = 10 * time.Second
	maxHead     = 64 << 10
)

// listenTCP makes the TCP listener; nil where none is wanted.
func listenTCP(ctx context.Context, f Front) (*net.TCPListener, error) {
	if f.Listen == "" {
		return nil, nil
	}
	host, port, err := net.SplitHostPort(f.Listen)
	if _, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil {
		return nil, api.Errorf(api.KindInvalid, "%.100q is no address to listen on", f.Listen).WithHint("write it as 127.0.0.1:7070 or [::1]:7070")
	}
	// It is looked up once: what was judged is what is listened on.
	addr, err := net.ResolveTCPAddr("tcp", f.Listen)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "listen on %.100s: %w", f.Listen, err)
	}
	if !addr.IP.IsLoopback() && !f.Insecure {
		where := host
		if addr.IP == nil || addr.IP.IsUnspecified() {
			where = "every address of this machine"
		}
		return nil, api.Errorf(api.KindDenied, "%s can be reached from other machines, and this listener does not encrypt: API keys, and what they are for, could be read and changed on the way", where).
			WithHint("listen on 127.0.0.1:%s and put a proxy with TLS before it, or an ssh tunnel; or, on a network that is trusted with all of it, --insecure-listen", port)
	}
	ln, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return nil, api.Errorf(api.KindConflict, "listen on %.100s: %w", f.Listen, err).WithHint("name another address: --listen 127.0.0.1:PORT")
	}
	return ln, nil
}

// urlOf is where a listener is reached from this machine.
func urlOf(ln net.Listener) string {
	a, ok := ln.Addr().(*net.TCPAddr)
	if !ok {
		return ""
	}
	ip := a.IP
	if ip.IsUnspecified() {
		ip = net.IPv4(127, 0, 0, 1)
	}
	return "http://" + net.JoinHostPort(ip.String(), strconv.Itoa(a.Port))
}

// url is where the daemon is reached over TCP, "" where it is not.
func (s *System) url() string {
	if u := s.reached.Load(); u != nil {
		return *u
	}
	return ""
}

// frontServer makes the server of the TCP listener.
func (s *System) frontServer(v1 http.Handler, track func(net.Conn, http.ConnState)) *http.Server {
	b := s.cfg.Front.Bounds.orDefault()
	return &http.Server{
		Handler:                      &front{doors: s.doorways(v1), authenticate: s.guards.porter.Authenticate, rest: b.Rest, log: s.log},
		ConnState:                    func(c net.Conn, state http.ConnState) { strict.State(c, state); track(c, state) },
		ReadHeaderTimeout:            b.Head,
		IdleTimeout:                  b.Keep,
		MaxHeaderBytes:               b.HeadBytes,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// openFront makes the TCP listener, if one is wanted, and the first key, if one is.
func (s *System) openFront(ctx context.Context) (net.Listener, error) {
	tcp, err := listenTCP(ctx, s.cfg.Front)
	if tcp == nil || err != nil {
		return nil, err
	}
	var first api.CreatedKey
	if s.cfg.Front.FirstKey {
		first, _, err = s.guards.keys.First(ctx, api.CreateKey{Name: "first", Account: FirstAccount, Role: api.RoleAdmin})
		if err != nil {
			tcp.Close()
			return nil, err
		}
	}
	url := urlOf(tcp)
	s.reached.Store(&url)
	if s.cfg.Front.Announce != nil {
		s.cfg.Front.Announce(url, first)
	}
	b := s.cfg.Front.Bounds.orDefault()
	return strict.NewListener(tcp, strict.Limits{Total: b.Conns, PerAddress: b.PerAddress, Shared: netip.Addr.IsLoopback}), nil
}
