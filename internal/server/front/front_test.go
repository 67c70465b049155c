package front

import (
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

func TestListen(t *testing.T) {
	for addr, want := range map[string]api.Kind{
		"127.0.0.1:0": "", "[::1]:0": "", "localhost:0": "", "127.8.9.10:0": "",
		"0.0.0.0:0": api.KindDenied, ":0": api.KindDenied, "[::]:0": api.KindDenied, "192.0.2.1:0": api.KindDenied,
		"127.0.0.1": api.KindInvalid, "127.0.0.1:http": api.KindInvalid, "127.0.0.1:99999": api.KindInvalid, "a b:1": api.KindInvalid,
	} {
		ln, err := Listen(t.Context(), Config{Listen: addr})
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
	ln, err := Listen(t.Context(), Config{Listen: "0.0.0.0:0", Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if _, err := Listen(t.Context(), Config{Listen: "127.0.0.1:" + strings.TrimPrefix(URL(ln), "http://127.0.0.1:")}); api.KindOf(err) != api.KindConflict {
		t.Errorf("a taken port: %v", err)
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
