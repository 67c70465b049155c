package front

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hortus.dev/api"
)

// TestMalformedRequests sends what package net/http accepts and a server must not see.
func TestMalformedRequests(t *testing.T) {
	called := false
	f := &Front{Servers: []Server{{Takes: func(*http.Request) bool { return true }, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true })}}}
	for name, change := range map[string]func(*http.Request){
		"a whole address": func(r *http.Request) { r.RequestURI = "http://169.254.169.254/v1/info" },
		"a star":          func(r *http.Request) { r.Method, r.RequestURI = "OPTIONS", "*" },
		"CONNECT":         func(r *http.Request) { r.Method, r.RequestURI = "CONNECT", "evil.example:443" },
		"no host":         func(r *http.Request) { r.Host = "" },
	} {
		r := httptest.NewRequest("GET", "/v1/info", nil)
		change(r)
		rec := httptest.NewRecorder()
		if f.ServeHTTP(rec, r); rec.Code != http.StatusBadRequest || called {
			t.Errorf("%s: %d, the server called %v", name, rec.Code, called)
		}
	}
	f.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/v1/info", nil))
	if !called {
		t.Error("a plain request does not get through either")
	}
}

// TestOrigins: pages of listed origins get what CORS needs, and no others; a key is needed all the same.
func TestOrigins(t *testing.T) {
	const app = "https://app.example.org"
	var methods []string
	f := &Front{
		Servers: []Server{{
			Takes: Below("/v1/"), Keyed: true, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { methods = append(methods, r.Method) }),
		}, {
			Takes: Below("/"), AnyOrigin: true, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { methods = append(methods, r.Method) }), Listed: Below("/guest"),
		}},
		Authenticate: func(_ context.Context, key string) (api.Principal, error) {
			if key != "good" {
				return api.Principal{}, api.Errorf(api.KindUnauthenticated, "unknown key")
			}
			return api.Operator(), nil
		},
		Origins: []string{app},
	}
	for _, c := range []struct {
		method, path, origin, key string
		preflight                 bool
		code                      int
		allowed                   bool
	}{
		{"GET", "/v1/x", app, "good", false, 200, true},
		{"GET", "/v1/x", app, "bad", false, 401, true}, // the page may read why
		{"OPTIONS", "/v1/x", app, "", true, 204, true},
		{"OPTIONS", "/v1/x", app, "", false, 200, true}, // no preflight
		{"GET", "/v1/x", "", "good", false, 200, false},
		{"GET", "/v1/x", "https://evil.example", "good", false, 403, false},
		{"OPTIONS", "/v1/x", "https://evil.example", "", true, 403, false},
		{"GET", "/v1/x", "http://app.example.org", "good", false, 403, false},
		{"GET", "/v1/x", app + ".evil.example", "good", false, 403, false},
		{"GET", "/v1/x", app + ":8443", "good", false, 403, false},
		{"GET", "/v1/x", "null", "good", false, 403, false},
		{"OPTIONS", "/port", app, "", true, 200, false}, // the server's own affair
		{"GET", "/port", app, "", false, 200, false},
		{"OPTIONS", "/guest", app, "", true, 204, true},
		{"GET", "/guest", app, "", false, 200, true},
		{"OPTIONS", "/guest", "https://evil.example", "", true, 200, false},
		{"GET", "/guest", "null", "", false, 200, false},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		if c.origin == "" {
			r.Header.Del("Sec-Fetch-Site")
		} else {
			r.Header.Set("Origin", c.origin)
		}
		if c.key != "" {
			r.Header.Set("X-API-KEY", c.key)
		}
		if c.preflight {
			r.Header.Set("Access-Control-Request-Method", "POST")
			r.Header.Set("Access-Control-Request-Headers", "x-api-key, content-type")
		}
		methods = nil
		rec := httptest.NewRecorder()
		f.ServeHTTP(rec, r)
		h := rec.Header()
		if rec.Code != c.code || (h.Get("Access-Control-Allow-Origin") == c.origin && c.origin != "") != c.allowed || h.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%+v: %d %v", c, rec.Code, h)
		}
		if c.allowed && (h.Get("Vary") != "Origin" || c.preflight != (h.Get("Access-Control-Allow-Headers") == "x-api-key, content-type")) {
			t.Errorf("%+v: %v", c, h)
		}
		if c.code == 204 && len(methods) > 0 {
			t.Errorf("%+v: a preflight reached the server", c)
		}
	}
	r := httptest.NewRequest("GET", "/v1/x", nil)
	r.Header.Add("Origin", app)
	r.Header.Add("Origin", "https://evil.example")
	rec := httptest.NewRecorder()
	if f.ServeHTTP(rec, r); rec.Code != http.StatusForbidden {
		t.Errorf("two origins: %d", rec.Code)
	}
	for origin, ok := range map[string]bool{
		app: true, "http://localhost:5173": true, "*": false, "null": false, "app.example.org": false, app + "/": false, app + "/x": false, "https://App.example.org": false,
		"https://*.example.org": false, "ftp://a": false, "https://": false, "https://u@a": false, "": false,
	} {
		if err := CheckOrigin(origin); (err == nil) != ok {
			t.Errorf("%q: %v", origin, err)
		}
	}
}

func TestListen(t *testing.T) {
	for addr, want := range map[string]api.Kind{
		"127.0.0.1:0": "", "[::1]:0": "", "localhost:0": "", "127.8.9.10:0": "",
		"0.0.0.0:0": api.KindDenied, ":0": api.KindDenied, "[::]:0": api.KindDenied, "192.0.2.1:0": api.KindDenied,
		"127.0.0.1": api.KindInvalid, "127.0.0.1:http": api.KindInvalid, "127.0.0.1:99999": api.KindInvalid, "a b:1": api.KindInvalid,
	} {
		ln, err := listen(t.Context(), addr, Config{})
		if addr == "[::1]:0" && api.KindOf(err) == api.KindConflict {
			continue // a machine without IPv6
		}
		if api.KindOf(err) != want {
			t.Errorf("%q: %v, want kind %q", addr, err, want)
		}
		if want == api.KindDenied && !strings.Contains(api.HintOf(err), "--insecure-listen") {
			t.Errorf("%q: hint %q", addr, api.HintOf(err))
		}
		if ln != nil {
			ln.Close()
		}
	}
	ln, err := listen(t.Context(), "0.0.0.0:0", Config{Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if _, err := listen(t.Context(), "127.0.0.1:"+strings.TrimPrefix(urlOf(ln, nil), "http://127.0.0.1:"), Config{}); api.KindOf(err) != api.KindConflict {
		t.Errorf("a taken port: %v", err)
	}
}

// TestHolds: a daemon that serves nothing now says so with 503 and the time to try again, or as the server says it that was asked.
func TestHolds(t *testing.T) {
	away := api.Errorf(api.KindUnavailable, "no database")
	away.RetryAfterMS = 3000
	served := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	f := &Front{
		Servers: []Server{{Takes: Operational, Handler: served}, {Takes: Below("/v1/"), Handler: served}, {Takes: Below("/"), Handler: served, Fail: func(w http.ResponseWriter, err error) { http.Error(w, "own: "+err.Error(), http.StatusTeapot) }}},
		Holds: func(r *http.Request) error {
			if Operational(r) {
				return nil
			}
			return away
		},
	}
	for _, c := range []struct {
		path        string
		code        int
		again, want string
	}{
		{"/readyz", http.StatusOK, "", ""},
		{"/v1/tasks", http.StatusServiceUnavailable, "3", `"kind":"unavailable"`},
		{"/sandboxes", http.StatusTeapot, "", "own: no database"},
	} {
		w := httptest.NewRecorder()
		f.ServeHTTP(w, httptest.NewRequest("GET", c.path, nil))
		if w.Code != c.code || w.Header().Get("Retry-After") != c.again || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %v %s", c.path, w.Code, w.Header(), w.Body)
		}
	}
}

// TestMetricsAreForAdmins: to everybody else the path does not exist.
func TestMetricsAreForAdmins(t *testing.T) {
	h := Operations(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func() []string { return nil }, http.NotFoundHandler())
	for _, c := range []struct {
		p    api.Principal
		code int
	}{
		{api.Principal{}, http.StatusNotFound},
		{api.Principal{Account: "a", Role: api.RoleUser}, http.StatusNotFound},
		{api.Principal{Account: "a", Role: api.RoleAdmin}, http.StatusOK},
		{api.Operator(), http.StatusOK},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil).WithContext(api.WithPrincipal(t.Context(), c.p)))
		if w.Code != c.code {
			t.Errorf("%+v: %d", c.p, w.Code)
		}
	}
}
