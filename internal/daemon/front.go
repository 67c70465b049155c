package daemon

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/door/access"
	"hortus.dev/internal/door/e2b"
	"hortus.dev/internal/door/envd"
	doorhttp "hortus.dev/internal/door/http"
	"hortus.dev/internal/sandbox/manager"
)

// doorway is one of the doors behind the TCP listener.
type doorway struct {
	// takes says whether a request is for this door. The first that takes one has it.
	takes func(*http.Request) bool
	door  http.Handler
	// keyed has the front find out whose API key a request shows; a door that is not
	// asks for what it needs itself.
	keyed bool
	// open leaves pages of other origins to the door: what a sandbox serves is for
	// browsers too.
	open bool
	// fail answers what the front refuses, in the door's words; nil is those of HTTP's.
	fail func(http.ResponseWriter, error)
}

// doorways lists the doors of the TCP listener, in the order in which they are asked.
func (s *System) doorways(v1 http.Handler) []doorway {
	g := s.guards
	plane := envd.New(envd.Config{Sandboxes: planeSandboxes{s.sandboxes, g.rates}, Tokens: g.tokens, Logger: s.log, Grace: s.cfg.Front.Bounds.orDefault().Grace})
	control := e2b.New(e2b.Config{
		Sandboxes: g.sandboxes, Snapshots: g.sandboxes, Keys: g.porter, Tokens: g.tokens,
		Isolation: s.cfg.Usual.Isolation, Limits: s.cfg.Usual.Limits, Logger: s.log,
	})
	return []doorway{
		{takes: envd.Claims, door: s.telemetry.HTTP("envd", plane), open: true},
		{takes: operational, door: s.ops(http.HandlerFunc(nothingThere)), keyed: true},
		{takes: below("/v1/"), door: s.telemetry.HTTP("http", v1), keyed: true},
		{takes: below("/"), door: s.telemetry.HTTP("e2b", control), fail: e2b.Fail},
	}
}

// planeSandboxes gives the data plane the manager in its words. The data plane lets
// nobody through who does not show a sandbox's own token.
type planeSandboxes struct {
	*manager.Manager
	rates *access.Rates
}

// StartExec implements envd.Sandboxes.
func (p planeSandboxes) StartExec(ctx context.Context, id api.SandboxID, req api.ExecRequest) (envd.ExecStream, error) {
	row, err := p.Manager.Get(ctx, id)
	if err == nil {
		err = p.rates.Command(row.Key)
	}
	if err != nil {
		return nil, err
	}
	s, err := p.Manager.StartExec(ctx, id, req)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// AttachExec implements envd.Sandboxes.
func (p planeSandboxes) AttachExec(ctx context.Context, id api.SandboxID, exec api.ExecID, offset int64) (envd.ExecStream, error) {
	s, err := p.Manager.AttachExec(ctx, id, exec, offset)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// operational says whether a request is for those who look after the daemon.
func operational(r *http.Request) bool {
	return r.URL.Path == "/healthz" || r.URL.Path == "/readyz" || r.URL.Path == "/metrics"
}

// nothingThere answers a request that no door takes.
func nothingThere(w http.ResponseWriter, r *http.Request) {
	doorhttp.Fail(w, api.Errorf(api.KindNotFound, "there is no %s %.200q", r.Method, r.URL.Path))
}

// below gives a test for paths below one.
func below(prefix string) func(*http.Request) bool {
	return func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, prefix) }
}

// front is the handler of the TCP listener. Anybody may be at the other end.
type front struct {
	doors        []doorway
	authenticate func(ctx context.Context, presented string) (api.Principal, error)
	// rest bounds what package net/http does for a request that was dealt with.
	rest time.Duration
	log  *slog.Logger
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Before the server goes on it reads what is left of a body and writes what is left
	// of an answer. Who was refused must not hold a connection by either.
	defer func() {
		rc, now := http.NewResponseController(w), time.Now()
		_ = rc.SetReadDeadline(now.Add(f.rest))
		_ = rc.SetWriteDeadline(now.Add(2 * f.rest)) // it is written after that
	}()
	if err := crooked(r); err != nil {
		// What can be read in two ways is not followed by more of the same.
		w.Header().Set("Connection", "close")
		doorhttp.Fail(w, err)
		return
	}
	for _, d := range f.doors {
		if !d.takes(r) {
			continue
		}
		switch {
		case !d.open && foreign(r):
			fail := doorhttp.Fail
			if d.fail != nil {
				fail = d.fail
			}
			fail(w, api.Errorf(api.KindDenied, "a page of another origin may not use this API"))
		case d.keyed:
			f.serveKeyed(w, r, d)
		default:
			d.door.ServeHTTP(w, r)
		}
		return
	}
	nothingThere(w, r)
}

// serveKeyed serves a request on behalf of whoever's key it shows. Without any key it
// is nobody's: doors let nobody through, but to what they mean for everybody.
func (f *front) serveKeyed(w http.ResponseWriter, r *http.Request, d doorway) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
	var p api.Principal
	presented, err := credential(r.Header)
	if err == nil && presented != "" {
		p, err = f.authenticate(r.Context(), presented)
	}
	if err != nil {
		if api.KindOf(err) == api.KindUnauthenticated {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		doorhttp.Fail(w, err)
		return
	}
	// What is behind the door, a guest for one, has no use for the key.
	r.Header.Del("X-Api-Key")
	if scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		r.Header.Del("Authorization")
	}
	if presented == "" {
		w = &hasty{ResponseWriter: w, within: f.rest}
	}
	d.door.ServeHTTP(w, r.WithContext(api.WithPrincipal(r.Context(), p)))
}

// hasty is the answer to somebody who showed no key: each part of it is to be taken
// soon. What is for everybody to read is long enough to be left half-way.
type hasty struct {
	http.ResponseWriter
	within time.Duration
}

// Unwrap is for http.ResponseController.
func (h *hasty) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// Write implements http.ResponseWriter.
func (h *hasty) Write(p []byte) (int, error) {
	_ = http.NewResponseController(h.ResponseWriter).SetWriteDeadline(time.Now().Add(h.within))
	return h.ResponseWriter.Write(p)
}

// credential gives the API key that a request shows, in X-API-KEY or as a bearer
// token; "" where it shows none. Other schemes of Authorization are for who is behind
// the door. Two keys are refused, the same one twice too: which of them another
// program on the way looked at is not known.
func credential(h http.Header) (string, error) {
	shown := append([]string(nil), h.Values("X-Api-Key")...)
	for _, v := range h.Values("Authorization") {
		if scheme, rest, ok := strings.Cut(v, " "); ok && strings.EqualFold(scheme, "Bearer") {
			shown = append(shown, strings.TrimSpace(rest))
		}
	}
	switch {
	case len(shown) == 0:
		return "", nil
	case len(shown) > 1:
		return "", api.Errorf(api.KindUnauthenticated, "the request shows %d API keys", len(shown)).
			WithHint("send one, in X-API-KEY or as Authorization: Bearer KEY")
	case shown[0] == "":
		return "", api.Errorf(api.KindUnauthenticated, "the request shows an empty API key").WithHint("is the variable set that it comes from?")
	}
	return shown[0], nil
}

// crooked says what is wrong with how a request is written. Package net/http, and the
// listener before it, refuse most of what is; this is what they let pass.
func crooked(r *http.Request) error {
	switch {
	case r.Method == http.MethodConnect:
		return api.Errorf(api.KindInvalid, "this is no proxy: CONNECT is not understood")
	case !strings.HasPrefix(r.RequestURI, "/"):
		return api.Errorf(api.KindInvalid, "the request names %.100q instead of a path", r.RequestURI)
	case r.Host == "":
		return api.Errorf(api.KindInvalid, "the request says no Host")
	}
	return nil
}

// foreign says whether a browser sends the request for a page of another origin. No
// such page can make a browser send an API key unless it has one; this is the second
// lock of that gate. Clients that are no browsers say nothing of the sort.
func foreign(r *http.Request) bool {
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
