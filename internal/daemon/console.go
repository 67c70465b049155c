package daemon

import (
	"context"
	"net"
	"net/http"
	"sync"

	"hortus.dev/api"
	"hortus.dev/internal/platform/service"
	"hortus.dev/internal/server/console"
	"hortus.dev/internal/server/front"
	httpapi "hortus.dev/internal/server/http"
	"hortus.dev/internal/server/key"
	"hortus.dev/internal/server/openid"
	"hortus.dev/internal/server/preview"
	"hortus.dev/internal/server/signin"
)

// address is where browsers and other clients reach the daemon over TCP.
type address struct {
	url string
	// previews is nil if ports have no addresses; why says then what to configure.
	previews *preview.Previews
	why      error
}

// reachAt notes the URL of the TCP listener, before it serves.
func (s *System) reachAt(url string) *address {
	a := &address{url: url}
	scheme, domain, err := preview.Address(s.cfg.Front.Domain, url)
	if a.why = err; err == nil {
		a.previews = preview.New(preview.Config{Scheme: scheme, Domain: domain, Tokens: s.guards.tokens, Now: s.db.Now})
	}
	s.address.Store(a)
	return a
}

// portURL returns the URL of a port of a sandbox.
func (s *System) portURL(row api.Sandbox, port int) (api.PortURL, error) {
	a := s.address.Load()
	if a.previews == nil {
		return api.PortURL{}, a.why
	}
	return a.previews.Link(row, port)
}

// newSignIns creates what browsers sign in at. on is the TCP listener, nil for one that only this machine reaches.
func (s *System) newSignIns(on net.Listener, tls bool) *signin.Sessions {
	loopback := !tls
	if on != nil {
		a, ok := on.Addr().(*net.TCPAddr)
		loopback = loopback && ok && a.IP.IsLoopback()
	}
	auth := s.guards.authenticator
	return signin.New(signin.Config{
		Rows: s.db, Now: s.db.Now, Verify: auth.Authenticate, Principal: auth.AuthenticateKey, PublicURL: s.cfg.Front.PublicURL, Loopback: loopback, Fail: httpapi.Fail,
		OpenID: s.guards.openID, People: s.guards.keys,
	})
}

// newOpenID creates the provider that people sign in with; nil if none is configured.
func (s *System) newOpenID(ctx context.Context) (*openid.Provider, error) {
	o := s.cfg.OpenID
	if o.Issuer == "" {
		return nil, nil
	}
	cfg := openid.Config{Now: s.db.Now, Issuer: o.Issuer, ClientID: o.ClientID, PublicURL: s.cfg.Front.PublicURL, Scopes: o.Scopes, Domains: o.Domains, Claim: o.Claim, Transport: s.transport}
	for _, text := range o.Rules {
		rule, err := openid.ParseRule(text)
		if err == nil {
			err = key.Check(api.CreateKey{Account: rule.Account, Role: rule.Role})
		}
		if err != nil {
			return nil, api.Errorf(api.KindInvalid, "oidc.rules: rule %.100q: %w", text, err).WithHint("%s", api.HintOf(err))
		}
		cfg.Rules = append(cfg.Rules, rule)
	}
	if o.Secret != "" {
		s.secrets.Warn(ctx, "oidc", map[string]string{o.Issuer: o.Secret})
		cfg.Secret = func(ctx context.Context, address string) (string, error) {
			return s.secrets.KeyFor(ctx, o.Secret, "oidc", address)
		}
	}
	var err error
	if cfg.Key, err = s.sharedSecret(ctx, "oauth.key"); err != nil {
		return nil, err
	}
	cfg.Use = s.used("sign-in")
	return openid.New(cfg)
}

// consoleServers are those of the console: its files, and where browsers sign in.
func (s *System) consoleServers(files *console.Console, signIns *signin.Sessions) []front.Server {
	checked := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := signIns.CheckHost(r); err != nil {
				httpapi.Fail(w, err)
				return
			}
			h.ServeHTTP(w, r)
		})
	}
	at := func(path string) func(*http.Request) bool {
		return func(r *http.Request) bool { return r.URL.Path == path }
	}
	return []front.Server{
		{Takes: at(signin.Path), Handler: s.telemetry.HTTP("console", signIns), SignsIn: true},
		{Takes: at(signin.OpenIDPath), Handler: s.telemetry.HTTP("console", http.HandlerFunc(signIns.ServeOpenID)), SignsIn: true},
		// The page of the provider leads a browser here.
		{Takes: at(openid.CallbackPath), Handler: s.telemetry.HTTP("console", http.HandlerFunc(signIns.ServeCallback)), AnyOrigin: true},
		{Takes: files.Takes, Handler: s.telemetry.HTTP("console", checked(files)), AnyOrigin: true},
	}
}

// door is the port of a daemon without a TCP listener. It is opened when somebody asks for the console, and has the API, the
// console and the ports of sandboxes.
type door struct {
	s        *System
	files    *console.Console
	signIns  *signin.Sessions
	listener *front.Door
	open     func() (url string, err error)
	v1       *httpapi.Server
	handler  http.Handler // set before the first connection
}

func (s *System) newDoor(files *console.Console, signIns *signin.Sessions) *door {
	d := &door{s: s, files: files, signIns: signIns, listener: front.NewDoor(s.cfg.Front.Bounds)}
	d.open = sync.OnceValues(func() (string, error) {
		url, err := d.listener.Listen()
		if err == nil {
			d.handler = s.front(append(s.clientServers(s.planeServer(s.reachAt(url)), s.telemetry.HTTP("http", d.v1)), s.consoleServers(files, signIns)...), signIns, false)
			d.listener.Open()
		}
		return url, err
	})
	return d
}

// server creates the server of the port.
func (d *door) server(v1 *httpapi.Server) service.Server {
	d.v1 = v1
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.handler.ServeHTTP(w, r) })
	return service.Server{Server: front.NewServer(h, false, d.s.cfg.Front.Bounds, d.s.service.Track, d.s.log), Listener: d.listener}
}
