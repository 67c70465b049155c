package front

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/quota"
	"hortus.dev/internal/server/certificate"
	"hortus.dev/internal/server/guestproxy"
	httpapi "hortus.dev/internal/server/http"
	"hortus.dev/internal/server/strict"
)

// Server is one of the servers behind the TCP listener.
type Server struct {
	// Takes reports whether a request is for this server. The first server that takes a
	// request serves it.
	Takes   func(*http.Request) bool
	Handler http.Handler
	// Keyed has the front authenticate the API key of a request. Other servers authenticate
	// requests themselves.
	Keyed bool
	// Sessions accepts the session of a browser in place of an API key, if Keyed.
	Sessions bool
	// SignsIn leaves the session of a browser in the request: the server begins and ends sessions.
	SignsIn bool
	// AnyOrigin accepts requests that a browser sends for pages of other origins. The server
	// answers their preflights itself.
	AnyOrigin bool
	// Listed reports, for a server with AnyOrigin, whether a request is one of those for which the front answers
	// pages of the allowed origins, as for other servers. Nil is none.
	Listed func(*http.Request) bool
	// OwnName refuses requests that a browser sends to a name other than localhost, unless its page has an allowed origin. An
	// attacker can make a name resolve to this machine, and its pages then have the origin of the server (DNS rebinding).
	OwnName bool
	// Key returns the API key that a token of the server stands for, and what is no token as it is. Nil means that there are no tokens.
	Key func(presented string) (string, error)
	// Challenge is the value of WWW-Authenticate for a wrong key; empty means "Bearer".
	Challenge string
	// Fail writes the error of a request that the front refuses; nil writes that of the
	// HTTP API.
	Fail func(http.ResponseWriter, error)
}

// Operational reports whether a request is for health checks or metrics; see Operations.
func Operational(r *http.Request) bool {
	return r.URL.Path == "/healthz" || r.URL.Path == "/readyz" || r.URL.Path == "/metrics"
}

// NotFound serves a request that no server takes.
func NotFound(w http.ResponseWriter, r *http.Request) {
	httpapi.Fail(w, api.Errorf(api.KindNotFound, "unknown route: %s %.200q", r.Method, r.URL.Path))
}

// Below returns a Takes for paths that begin with prefix.
func Below(prefix string) func(*http.Request) bool {
	return func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, prefix) }
}

// Sessions are the browsers that are signed in.
type Sessions interface {
	// Take removes what is a session's from a request, and returns what authenticates it, nil if it has no session.
	Take(r *http.Request) func(context.Context) (api.Principal, error)
}

// Front is the handler of the TCP listener. No client is trusted.
type Front struct {
	Servers []Server
	// Authenticate returns the principal of an API key.
	Authenticate func(ctx context.Context, presented string) (api.Principal, error)
	// Sessions are those of browsers; nil means that there are none.
	Sessions Sessions
	// Rest is the maximum time for reading the rest of a request's body and sending the
	// rest of the answer, once its server has returned.
	Rest time.Duration
	// Requests bounds the requests in service; nil means no bound.
	Requests *quota.Requests
	// TLS is true if the listener encrypts its connections. They may carry HTTP/2.
	TLS bool
	// Origins are the other origins whose pages may use the servers without AnyOrigin, such
	// as "https://app.example.org". A page needs an API key all the same: no answer allows
	// cookies.
	Origins []string
	// Now is the clock by which keys expire; nil means time.Now.
	Now func() time.Time
	// Holds returns why the daemon does not serve a request now; nil means that it always serves.
	Holds func(*http.Request) error
}

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.TLS {
		r.TLS = strict.TLSOf(r.Context())
	}
	if f.Requests != nil {
		ctx, end := f.Requests.Serve(r.Context())
		defer end()
		r = r.WithContext(ctx)
	}
	// The server then reads the rest of the body and writes the rest of the answer. A
	// client that was refused must not hold the connection with either.
	defer func() {
		rc, now := http.NewResponseController(w), time.Now()
		_ = rc.SetReadDeadline(now.Add(f.Rest))
		_ = rc.SetWriteDeadline(now.Add(2 * f.Rest)) // writing comes after reading
	}()
	if err := checkForm(r); err != nil {
		// Other programs may read this connection in another way.
		w.Header().Set("Connection", "close")
		httpapi.Fail(w, err)
		return
	}
	for _, d := range f.Servers {
		if !d.Takes(r) {
			continue
		}
		if f.Holds != nil {
			if err := f.Holds(r); err != nil {
				fail := httpapi.Refuse
				if d.Fail != nil {
					fail = d.Fail
				}
				fail(w, err)
				return
			}
		}
		switch {
		case (!d.AnyOrigin || d.Listed != nil && d.Listed(r)) && f.allows(r):
			if !answerOrigin(w, r) {
				f.serve(w, r, d)
			}
		case !d.AnyOrigin && crossOrigin(r), d.OwnName && foreignName(r):
			fail := httpapi.Fail
			if d.Fail != nil {
				fail = d.Fail
			}
			fail(w, api.Errorf(api.KindDenied, "cross-origin requests are not allowed from %.100q", r.Header.Get("Origin")).
				WithHint("a page of this origin may use the API if the setting serve.origins of the daemon names it"))
		default:
			f.serve(w, r, d)
		}
		return
	}
	NotFound(w, r)
}

func (f *Front) serve(w http.ResponseWriter, r *http.Request, d Server) {
	if d.SignsIn {
		d.Handler.ServeHTTP(w, r)
		return
	}
	var session func(context.Context) (api.Principal, error)
	if f.Sessions != nil { // nothing behind the server, such as a guest, sees a session
		session = f.Sessions.Take(r)
	}
	if d.Keyed {
		f.serveKeyed(w, r, d, session)
		return
	}
	d.Handler.ServeHTTP(w, r)
}

// allows reports whether a browser sends the request for a page of an allowed origin.
func (f *Front) allows(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	return len(origins) == 1 && slices.Contains(f.Origins, origins[0])
}

// maxPreflight bounds the names of headers that a preflight asks for, in bytes.
const maxPreflight = 4096

// answerOrigin tells a browser that a page of the request's origin may read the answer (the
// CORS protocol of the Fetch standard). It reports whether the request was a preflight, which
// it has answered.
func answerOrigin(w http.ResponseWriter, r *http.Request) (preflight bool) {
	h := w.Header()
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	h.Set("Access-Control-Expose-Headers", "*")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" && len(asked) <= maxPreflight {
		h.Set("Access-Control-Allow-Headers", asked)
	}
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// CheckOrigin refuses what no browser sends as an origin: KindInvalid.
func CheckOrigin(origin string) error {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || origin != u.Scheme+"://"+u.Host || strings.ToLower(origin) != origin || strings.Contains(origin, "*") {
		return api.Errorf(api.KindInvalid, "serve.origins: %.100q is not an origin", origin).WithHint("write the scheme and the host in lower case, for example https://app.example.org or http://localhost:5173; each origin by itself, * is not allowed")
	}
	return nil
}

// serveKeyed serves a request with the principal of its API key. A request without a key
// has no principal: a server refuses it unless what it asks for is public.
func (f *Front) serveKeyed(w http.ResponseWriter, r *http.Request, d Server, session func(context.Context) (api.Principal, error)) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
	var p api.Principal
	presented, err := apiKey(r.Header)
	if err == nil && presented != "" && d.Key != nil {
		presented, err = d.Key(presented)
	}
	if presented != "" || !d.Sessions {
		session = nil
	}
	switch {
	case err != nil:
	case presented != "":
		p, err = f.Authenticate(r.Context(), presented)
	case session != nil:
		p, err = session(r.Context())
	}
	if err != nil {
		if api.KindOf(err) == api.KindUnauthenticated {
			w.Header().Set("WWW-Authenticate", cmp.Or(d.Challenge, "Bearer"))
		}
		httpapi.Fail(w, err)
		return
	}
	// A guest behind the server must not see the key.
	r.Header.Del("X-Api-Key")
	if scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		r.Header.Del("Authorization")
	}
	if presented == "" && session == nil {
		w = &deadlineWriter{ResponseWriter: w, within: f.Rest}
	}
	ctx := api.WithPrincipal(r.Context(), p)
	if !p.ExpiresAt.IsZero() {
		now := time.Now
		if f.Now != nil {
			now = f.Now
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, p.ExpiresAt.Sub(now()), api.Errorf(api.KindUnauthenticated, "API key %s has expired", p.Key))
		defer cancel()
	}
	d.Handler.ServeHTTP(w, r.WithContext(ctx))
}

// deadlineWriter is the answer to a client without a key, which must read each part of it
// within a time.
type deadlineWriter struct {
	http.ResponseWriter
	within time.Duration
}

// Unwrap is for http.ResponseController.
func (h *deadlineWriter) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// Write implements http.ResponseWriter.
func (h *deadlineWriter) Write(p []byte) (int, error) {
	_ = http.NewResponseController(h.ResponseWriter).SetWriteDeadline(time.Now().Add(h.within))
	return h.ResponseWriter.Write(p)
}

// apiKey returns the API key of a request, in X-API-KEY or as a bearer token, or "" if there
// is none. Other schemes of Authorization are for the program behind the server. Two keys are
// refused, even two equal ones: a proxy may have checked the other one.
func apiKey(h http.Header) (string, error) {
	keys := append([]string(nil), h.Values("X-Api-Key")...)
	for _, v := range h.Values("Authorization") {
		if scheme, rest, ok := strings.Cut(v, " "); ok && strings.EqualFold(scheme, "Bearer") {
			keys = append(keys, strings.TrimSpace(rest))
		}
	}
	switch {
	case len(keys) == 0:
		return "", nil
	case len(keys) > 1:
		return "", api.Errorf(api.KindUnauthenticated, "the request has %d API keys", len(keys)).
			WithHint("send one, in X-API-KEY or as Authorization: Bearer KEY")
	case keys[0] == "":
		return "", api.Errorf(api.KindUnauthenticated, "the API key of the request is empty").WithHint("check the environment variable of the client")
	}
	return keys[0], nil
}

// checkForm refuses malformed requests that package net/http and the strict listener
// accept.
func checkForm(r *http.Request) error {
	switch {
	case r.Method == http.MethodConnect:
		return api.Errorf(api.KindInvalid, "this server is not a proxy: CONNECT is not supported")
	case !strings.HasPrefix(r.RequestURI, "/"):
		return api.Errorf(api.KindInvalid, "the target %.100q of the request is not a path", r.RequestURI)
	case r.ProtoMajor > 1 && r.Header.Get("Host") != "":
		return api.Errorf(api.KindInvalid, "the request has a Host beside its :authority")
	case r.Host == "" && (r.ProtoAtLeast(1, 1) || r.URL.Path != "/healthz" && r.URL.Path != "/readyz"): // checks of load balancers may be HTTP/1.0
		return api.Errorf(api.KindInvalid, "the request has no Host")
	}
	return nil
}

// crossOrigin reports whether a browser sends the request for a page of another origin. A
// page needs an API key too; this is the second check. Clients that are not browsers send
// neither header.
func crossOrigin(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host)
}

// foreignName reports whether a browser sends the request to a name other than localhost. A request to an address is not one: names can be
// made to resolve to another machine, addresses cannot.
func foreignName(r *http.Request) bool {
	if r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == "" {
		return false
	}
	u, err := url.Parse("//" + r.Host)
	if err != nil {
		return true
	}
	name := strings.ToLower(u.Hostname())
	_, err = netip.ParseAddr(name)
	return err != nil && name != "localhost" && !strings.HasSuffix(name, ".localhost")
}

// Config is how a daemon is reached over TCP.
type Config struct {
	// Listen is HOST:PORT; empty means no listener. Port 0 takes any free port.
	Listen string
	// Insecure allows a HOST that other machines can reach although the listener does not
	// encrypt: requests can be read on the network, API keys included.
	Insecure bool
	// TLS is the certificate of a listener that encrypts; its zero value is none.
	TLS certificate.Config
	// Redirect is the HOST:PORT of a second listener without TLS, which leads browsers to the
	// first one and answers the questions of ACME. Empty means none.
	Redirect string
	// Origins are those of a Front.
	Origins []string
	// Domain is where ports of sandboxes are: PORT-ID.Domain. It has a port if that is not 443.
	Domain string
	// PublicURL is where clients reach the daemon; empty means that there is no OAuth.
	PublicURL string
	// FirstKey creates an API key if there never was one.
	FirstKey bool
	// Keyless, unless it is nil, is called if there never was an API key and FirstKey is not set.
	Keyless func()
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
	// maxStreams is the maximum number of requests at a time on one connection of HTTP/2, and
	// pingAfter the time after which its silent client is asked whether it is there.
	maxStreams = 64
	pingAfter  = 30 * time.Second
)

// Check reports whether Open could listen, without doing more.
func Check(ctx context.Context, cfg Config) error {
	if _, err := openCertificate(cfg); err != nil {
		return err
	}
	for _, address := range []string{cfg.Listen, cfg.Redirect} {
		ln, err := listen(ctx, address, cfg)
		if err != nil {
			return err
		}
		if ln != nil {
			ln.Close()
		}
	}
	return nil
}

// CheckDomain refuses what is not a domain in lower case, perhaps with a port: KindInvalid.
func CheckDomain(domain string) error {
	host, port, found := strings.Cut(domain, ":")
	_, perr := strconv.ParseUint(port, 10, 16)
	bad := found && perr != nil || len(host) > 200
	for label := range strings.SplitSeq(host, ".") {
		bad = bad || label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != ""
	}
	if bad {
		return api.Errorf(api.KindInvalid, "serve.domain: %.100q is not a domain", domain).WithHint("for example box.example.org, in lower case, whose subdomains all lead to this daemon; with :PORT if the port is not 443")
	}
	return nil
}

// openCertificate returns the source of certificates; nil if none is configured.
func openCertificate(cfg Config) (*certificate.Source, error) {
	if cfg.Domain != "" {
		if err := CheckDomain(cfg.Domain); err != nil {
			return nil, err
		}
	}
	if cfg.TLS.Enabled() {
		source, err := certificate.Open(cfg.TLS)
		if host, _, _ := strings.Cut(cfg.Domain, ":"); err == nil && cfg.Domain != "" && !source.Covers("3000-i0."+host) {
			return nil, api.Errorf(api.KindInvalid, "the certificate is not valid for the names of ports, *.%s", host).
				WithHint("obtain a wildcard certificate with a client of your DNS provider, and set serve.tls-cert and serve.tls-key; ACME over this listener has none")
		}
		return source, err
	}
	if cfg.Redirect != "" {
		return nil, api.Errorf(api.KindInvalid, "serve.redirect-listen is set, but %s has no TLS to redirect to", cfg.Listen).
			WithHint("set serve.tls-cert and serve.tls-key, or serve.acme-names")
	}
	return nil, nil
}

// listen listens on an address; it returns nil if there is none.
func listen(_ context.Context, address string, f Config) (*net.TCPListener, error) {
	if address == "" {
		return nil, nil
	}
	host, port, err := net.SplitHostPort(address)
	if _, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil {
		return nil, api.Errorf(api.KindInvalid, "%.100q is not a valid address to listen on", address).WithHint("use for example 127.0.0.1:7070 or [::1]:7070")
	}
	// The name is resolved once, so that the address that is checked is the one in use.
	addr, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "listen on %.100s: %w", address, err)
	}
	if !addr.IP.IsLoopback() && !f.Insecure && !f.TLS.Enabled() {
		reach := host
		if addr.IP == nil || addr.IP.IsUnspecified() {
			reach = "every address of this machine"
		}
		return nil, api.Errorf(api.KindDenied, "%s can be reached from other machines, and this listener has no TLS: API keys and requests could be read and changed on the network", reach).
			WithHint("add a certificate with --tls-cert and --tls-key, or --acme-names NAME; or listen on 127.0.0.1:%s behind a proxy with TLS or an ssh tunnel; or, on a trusted network, add --insecure-listen", port)
	}
	ln, err := net.ListenTCP("tcp", addr)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, api.Errorf(api.KindDenied, "listen on %.100s: %w", address, err).
			WithHint("ports below 1024 need root or a right: sysctl net.ipv4.ip_unprivileged_port_start=%s; or listen on a higher port, such as 8443, and forward to it", port)
	case err != nil:
		return nil, api.Errorf(api.KindConflict, "listen on %.100s: %w", address, err).WithHint("use another address: --listen 127.0.0.1:PORT")
	}
	return ln, nil
}

// urlOf returns the address of a listener: for clients on this machine or, if it encrypts, by the name of the
// certificate.
func urlOf(ln net.Listener, source *certificate.Source) string {
	a, ok := ln.Addr().(*net.TCPAddr)
	if !ok {
		return ""
	}
	ip := a.IP
	if ip.IsUnspecified() {
		ip = net.IPv4(127, 0, 0, 1)
	}
	port := strconv.Itoa(a.Port)
	if source == nil {
		return "http://" + net.JoinHostPort(ip.String(), port)
	}
	name := cmp.Or(source.Name(), ip.String())
	if a.Port == 443 && !strings.Contains(name, ":") {
		return "https://" + name
	}
	return "https://" + net.JoinHostPort(name, port)
}

// NewServer creates the server of a TCP listener, whose handler is a Front. tls is that of the Front. track is called with the state of each
// connection.
func NewServer(h http.Handler, tls bool, b Bounds, track func(net.Conn, http.ConnState), log *slog.Logger) *http.Server {
	b = b.WithDefaults()
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(tls) // inside of TLS, see package strict
	return &http.Server{
		Handler:                      h,
		Protocols:                    protocols,
		HTTP2:                        &http.HTTP2Config{MaxConcurrentStreams: maxStreams, SendPingTimeout: pingAfter, WriteByteTimeout: time.Minute},
		ConnContext:                  strict.InContext,
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
	// None reports whether there never was a key.
	None(ctx context.Context) (bool, error)
}

// Listeners are the open listeners of a daemon. They are served, or closed with Close.
type Listeners struct {
	// Listener is the TCP listener, and URL its address. Redirect is the second listener, with
	// RedirectServer; nil if there is none.
	Listener       net.Listener
	URL            string
	TLS            bool
	Redirect       net.Listener
	RedirectServer *http.Server
}

// Close closes those that are open. Servers that serve them end.
func (l Listeners) Close() {
	if l.Listener != nil {
		l.Listener.Close()
	}
	if l.Redirect != nil {
		l.Redirect.Close()
	}
}

// Announce creates the first key, if that is configured, or says that there is none, and calls cfg.Announce. Without a Listener it does nothing.
func (l Listeners) Announce(ctx context.Context, cfg Config, keys Keys) (err error) {
	if l.Listener == nil {
		return nil
	}
	var first api.CreatedKey
	switch {
	case cfg.FirstKey:
		first, _, err = keys.First(ctx, api.CreateKey{Name: "first", Account: firstAccount, Role: api.RoleAdmin})
	case cfg.Keyless != nil:
		var none bool
		if none, err = keys.None(ctx); none {
			cfg.Keyless()
		}
	}
	if err == nil && cfg.Announce != nil {
		cfg.Announce(l.URL, first)
	}
	return err
}

// Open creates the TCP listener. It returns no Listener if none is configured.
func Open(ctx context.Context, cfg Config) (out Listeners, err error) {
	for _, origin := range cfg.Origins {
		if err := CheckOrigin(origin); err != nil {
			return out, err
		}
	}
	if cfg.Listen == "" {
		return out, nil
	}
	source, err := openCertificate(cfg)
	if err != nil {
		return out, err
	}
	tcp, err := listen(ctx, cfg.Listen, cfg)
	if err != nil {
		return out, err
	}
	redirect, err := listen(ctx, cfg.Redirect, cfg)
	if err != nil {
		tcp.Close()
		return out, err
	}
	out = Listeners{URL: urlOf(tcp, source), TLS: source != nil}
	b := cfg.Bounds.WithDefaults()
	limits := strict.Limits{Total: b.Conns, PerAddress: b.PerAddress, Shared: netip.Addr.IsLoopback}
	if source == nil {
		out.Listener = strict.NewListener(tcp, limits)
		return out, nil
	}
	out.Listener = strict.NewTLSListener(tcp, limits, source.TLS())
	if redirect != nil {
		out.Redirect = strict.NewListener(redirect, limits)
		out.RedirectServer = &http.Server{
			Handler: source.HTTP(redirectTo(tcp.Addr())), ConnState: strict.State,
			ReadHeaderTimeout: b.Head, IdleTimeout: b.Keep, WriteTimeout: b.Rest, MaxHeaderBytes: b.HeadBytes,
		}
	}
	return out, nil
}

// redirectTo leads browsers to the same address over HTTPS. Other requests are refused: a client that follows would continue to
// send the first request, and what is secret in it, in the clear.
func redirectTo(to net.Addr) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, err := url.Parse("//" + r.Host)
		switch {
		case err != nil || u.Host != r.Host || u.Hostname() == "" || !strings.HasPrefix(r.RequestURI, "/"):
			httpapi.Fail(w, api.Errorf(api.KindInvalid, "the request has no valid Host or path"))
			return
		case r.Method != http.MethodGet && r.Method != http.MethodHead, r.Header.Get("X-Api-Key") != "", r.Header.Get("Authorization") != "", r.Header.Get("X-Access-Token") != "":
			httpapi.Fail(w, api.Errorf(api.KindDenied, "this request was sent without encryption: use https://").
				WithHint("if it had an API key, revoke the key: others may have read it (hortus key rm ID)"))
			return
		}
		host := u.Hostname()
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		if a, ok := to.(*net.TCPAddr); ok && a.Port != 443 {
			host += ":" + strconv.Itoa(a.Port)
		}
		w.Header().Set("Connection", "close")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Location", "https://"+host+r.URL.RequestURI())
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
}

// Operations serves the paths for those who operate a daemon, and passes other requests to
// next:
//
//	GET /healthz  whether the daemon runs
//	GET /readyz   whether the daemon serves at full speed or, if not, what is missing
//	GET /metrics  its metrics, for admins only
//
// The first two need no API key: they show nothing that is not public.
func Operations(metrics http.Handler, missing func() []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		switch r.URL.Path {
		case "/healthz":
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte("ok\n"))
		case "/readyz":
			writeReady(w, missing())
		case "/metrics":
			if api.PrincipalOf(r.Context()).Role == api.RoleAdmin {
				metrics.ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(w, r) // others get 404
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// writeReady answers a load balancer.
func writeReady(w http.ResponseWriter, missing []string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if len(missing) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(struct {
		Ready   bool     `json:"ready"`
		Missing []string `json:"missing,omitempty"`
	}{len(missing) == 0, missing})
}
