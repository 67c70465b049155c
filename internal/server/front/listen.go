package front

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
	"hortus.dev/internal/server/guestproxy"
	"hortus.dev/internal/server/strict"
)

// Config is how a daemon is reached over TCP.
type Config struct {
	// Listen is HOST:PORT; empty means no listener. Port 0 takes any free port.
	Listen string
	// Insecure allows a HOST that other machines can reach. The listener does not
	// encrypt: requests can be read on the network, API keys included.
	Insecure bool
	// FirstKey creates an API key if there never was one.
	FirstKey bool
	// Announce is called with the URL of the daemon and the first key, whose Secret is
	// empty if none was created.
	Announce func(url string, first api.CreatedKey)
	Bounds   Bounds
}

// Bounds are the limits of the TCP listener's clients. A zero field takes its default.
// Streams that are served have no time limit.
type Bounds struct {
	// Conns is the maximum number of connections (default 4096); PerAddress that of one
	// address other than this machine's own (default 2048). Behind this machine's own
	// there may be a proxy.
	Conns, PerAddress int
	// Head is the maximum time for reading a request's head (default 10 s), Keep the
	// maximum idle time of a connection (default 2 min).
	Head, Keep time.Duration
	// Rest is the maximum time for reading the rest of a request's body and sending the
	// rest of the answer, once the request was served (default 10 s).
	Rest time.Duration
	// Grace is the time that a client has to read the rest of an answer after the end of
	// its sandbox (default 10 s).
	Grace time.Duration
	// HeadBytes is the maximum size of a request's head (default 64 KiB).
	HeadBytes int
}

// WithDefaults returns the bounds with the defaults of zero fields.
func (b Bounds) WithDefaults() Bounds {
	return Bounds{
		Conns: cmp.Or(b.Conns, maxConns), PerAddress: cmp.Or(b.PerAddress, maxConns/2),
		Head: cmp.Or(b.Head, headTimeout), Keep: cmp.Or(b.Keep, keepTimeout), Rest: cmp.Or(b.Rest, restTimeout),
		Grace: cmp.Or(b.Grace, guestproxy.DefaultGrace), HeadBytes: cmp.Or(b.HeadBytes, maxHead),
	}
}

// firstAccount is the account of the first key.
const firstAccount = "default"

const (
	maxConns    = 4096
	headTimeout = 10 * time.Second
	keepTimeout = 2 * time.Minute
	restTimeout = 10 * time.Second
	maxHead     = 64 << 10
)

// Listen listens on the configured address; it returns nil if there is none.
func Listen(_ context.Context, f Config) (*net.TCPListener, error) {
	if f.Listen == "" {
		return nil, nil
	}
	host, port, err := net.SplitHostPort(f.Listen)
	if _, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil {
		return nil, api.Errorf(api.KindInvalid, "%.100q is not a valid address to listen on", f.Listen).WithHint("use for example 127.0.0.1:7070 or [::1]:7070")
	}
	// The name is resolved once, so that the address that is checked is the one in use.
	addr, err := net.ResolveTCPAddr("tcp", f.Listen)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "listen on %.100s: %w", f.Listen, err)
	}
	if !addr.IP.IsLoopback() && !f.Insecure {
		reach := host
		if addr.IP == nil || addr.IP.IsUnspecified() {
			reach = "every address of this machine"
		}
		return nil, api.Errorf(api.KindDenied, "%s can be reached from other machines, and this listener has no TLS: API keys and requests could be read and changed on the network", reach).
			WithHint("listen on 127.0.0.1:%s behind a proxy with TLS or an ssh tunnel; or, on a trusted network, add --insecure-listen", port)
	}
	ln, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return nil, api.Errorf(api.KindConflict, "listen on %.100s: %w", f.Listen, err).WithHint("use another address: --listen 127.0.0.1:PORT")
	}
	return ln, nil
}

// URL returns the address of a listener for clients on this machine.
func URL(ln net.Listener) string {
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

// NewServer creates the server of the TCP listener. track is called with the state of each
// connection.
func NewServer(f *Front, b Bounds, track func(net.Conn, http.ConnState), log *slog.Logger) *http.Server {
	b = b.WithDefaults()
	return &http.Server{
		Handler:                      f,
		ConnState:                    func(c net.Conn, state http.ConnState) { strict.State(c, state); track(c, state) },
		ReadHeaderTimeout:            b.Head,
		IdleTimeout:                  b.Keep,
		MaxHeaderBytes:               b.HeadBytes,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// NewSocketServer creates the server of the daemon's unix socket, whose clients are the
// operator: only the daemon's user can open it.
func NewSocketServer(h http.Handler, track func(net.Conn, http.ConnState)) *http.Server {
	return &http.Server{
		Handler:           h,
		BaseContext:       func(net.Listener) context.Context { return api.WithPrincipal(context.Background(), api.Operator()) },
		ConnState:         track,
		ReadHeaderTimeout: headTimeout,
		MaxHeaderBytes:    maxHead,
	}
}

// Keys creates the first API key.
type Keys interface {
	// First creates a key unless there ever was one.
	First(ctx context.Context, req api.CreateKey) (api.CreatedKey, bool, error)
}

// Open creates the TCP listener and, if configured, the first key. It returns nil and "" if
// no listener is configured.
func Open(ctx context.Context, cfg Config, keys Keys) (ln net.Listener, url string, err error) {
	tcp, err := Listen(ctx, cfg)
	if tcp == nil || err != nil {
		return nil, "", err
	}
	var first api.CreatedKey
	if cfg.FirstKey {
		first, _, err = keys.First(ctx, api.CreateKey{Name: "first", Account: firstAccount, Role: api.RoleAdmin})
		if err != nil {
			tcp.Close()
			return nil, "", err
		}
	}
	url = URL(tcp)
	if cfg.Announce != nil {
		cfg.Announce(url, first)
	}
	b := cfg.Bounds.WithDefaults()
	return strict.NewListener(tcp, strict.Limits{Total: b.Conns, PerAddress: b.PerAddress, Shared: netip.Addr.IsLoopback}), url, nil
}
