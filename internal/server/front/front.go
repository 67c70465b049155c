package front

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"hortus.dev/api"
	httpapi "hortus.dev/internal/server/http"
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
	// AnyOrigin accepts requests that a browser sends for pages of other origins.
	AnyOrigin bool
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

// Front is the handler of the TCP listener. No client is trusted.
type Front struct {
	Servers []Server
	// Authenticate returns the principal of an API key.
	Authenticate func(ctx context.Context, presented string) (api.Principal, error)
	// Rest is the maximum time for reading the rest of a request's body and sending the
	// rest of the answer, once its server has returned.
	Rest time.Duration
}

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
		switch {
		case !d.AnyOrigin && crossOrigin(r):
			fail := httpapi.Fail
			if d.Fail != nil {
				fail = d.Fail
			}
			fail(w, api.Errorf(api.KindDenied, "cross-origin requests are not allowed"))
		case d.Keyed:
			f.serveKeyed(w, r, d)
		default:
			d.Handler.ServeHTTP(w, r)
		}
		return
	}
	NotFound(w, r)
}

// serveKeyed serves a request with the principal of its API key. A request without a key
// has no principal: a server refuses it unless what it asks for is public.
func (f *Front) serveKeyed(w http.ResponseWriter, r *http.Request, d Server) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
	var p api.Principal
	presented, err := apiKey(r.Header)
	if err == nil && presented != "" {
		p, err = f.Authenticate(r.Context(), presented)
	}
	if err != nil {
		if api.KindOf(err) == api.KindUnauthenticated {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		httpapi.Fail(w, err)
		return
	}
	// A guest behind the server must not see the key.
	r.Header.Del("X-Api-Key")
	if scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		r.Header.Del("Authorization")
	}
	if presented == "" {
		w = &deadlineWriter{ResponseWriter: w, within: f.Rest}
	}
	d.Handler.ServeHTTP(w, r.WithContext(api.WithPrincipal(r.Context(), p)))
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
	case r.Host == "":
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
