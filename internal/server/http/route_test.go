package http_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"hortus.dev/api"
	httpapi "hortus.dev/internal/server/http"
)

// TestTable holds every entry of the table to what documentation and authorisation
// need of it.
func TestTable(t *testing.T) {
	names, served := map[string]bool{}, map[string]bool{}
	n := 0
	for rt := range httpapi.New(httpapi.Config{}).Routes() {
		n++
		what := rt.Method + " " + rt.Pattern
		if rt.Handler == nil || !strings.HasPrefix(rt.Pattern, "/v1/") || served[what] {
			t.Errorf("%s: no handler, outside /v1, or there twice", what)
		}
		if rt.Name == "" || names[rt.Name] {
			t.Errorf("%s: the name %q is empty or taken", what, rt.Name)
		}
		if !strings.HasSuffix(rt.Doc, ".") {
			t.Errorf("%s: its documentation is no sentence: %q", what, rt.Doc)
		}
		if rt.Open == (rt.Role != "") || rt.Role != "" && rt.Role != api.RoleUser && rt.Role != api.RoleAdmin {
			t.Errorf("%s: it is open to %q and to all: %v", what, rt.Role, rt.Open)
		}
		if rt.Creates && (rt.Method != http.MethodPost || rt.Out == nil) {
			t.Errorf("%s: it cannot create", what)
		}
		names[rt.Name], served[what] = true, true
	}
	if n < 30 {
		t.Errorf("only %d routes", n)
	}
}

// TestEveryRouteIsGuarded calls each route as nobody and as a user. Behind the server
// stands nothing: what gets past the guard fails in its handler.
func TestEveryRouteIsGuarded(t *testing.T) {
	d := httpapi.New(httpapi.Config{})
	call := func(rt httpapi.Route, p api.Principal) (code int, body string) {
		method := rt.Method
		if method == "" {
			method = http.MethodGet
		}
		path := strings.NewReplacer("{", "", "}", "").Replace(rt.Pattern)
		r := httptest.NewRequest(method, path, nil)
		w := httptest.NewRecorder()
		defer func() {
			if recover() != nil {
				code = 0 // it went on to what is not there
			}
		}()
		d.ServeHTTP(w, r.WithContext(api.WithPrincipal(r.Context(), p)))
		b, _ := io.ReadAll(w.Body)
		return w.Code, string(b)
	}
	for rt := range d.Routes() {
		if code, body := call(rt, api.Principal{}); !rt.Open && (code != http.StatusUnauthorized || !strings.Contains(body, "unauthenticated")) {
			t.Errorf("%s %s lets nobody in: %d %s", rt.Method, rt.Pattern, code, body)
		}
		code, body := call(rt, api.Principal{Role: api.RoleUser, Account: "a"})
		if denied := code == http.StatusForbidden || code == http.StatusUnauthorized; denied != (rt.Role == api.RoleAdmin) {
			t.Errorf("%s %s for a user: %d %s", rt.Method, rt.Pattern, code, body)
		}
		if rt.Name == "fleetNodes" && !strings.Contains(body, "allowed for the operator only, and the API key is a user's: list the nodes that share the database") {
			t.Errorf("the error does not say in words what is not allowed: %s", body)
		}
		if code, _ := call(rt, api.Operator()); code == http.StatusForbidden || code == http.StatusUnauthorized {
			t.Errorf("%s %s keeps the operator out: %d", rt.Method, rt.Pattern, code)
		}
	}
}

// TestBody: a body that a route does not have is refused, not ignored.
func TestBody(t *testing.T) {
	d := httpapi.New(httpapi.Config{})
	n := 0
	for rt := range d.Routes() {
		if rt.In != nil || rt.InType != "" || rt.Method == http.MethodGet {
			continue
		}
		n++
		query := url.Values{}
		for _, p := range rt.Params {
			if p.Required {
				query.Set(p.Name, "x")
			}
		}
		r := httptest.NewRequest(rt.Method, strings.NewReplacer("{", "", "}", "").Replace(rt.Pattern)+"?"+query.Encode(), strings.NewReader(`{"ttlMs":1}`))
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r.WithContext(api.WithPrincipal(t.Context(), api.Operator())))
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `unknown field \"ttlMs\"`) {
			t.Errorf("%s %s: %d %s", rt.Method, rt.Pattern, w.Code, w.Body)
		}
	}
	if n < 20 {
		t.Errorf("%d routes without a body", n)
	}
}

// TestQueryAndMethod: a parameter that a route does not have is refused, not ignored, and a path that is there
// for other methods says for which.
func TestQueryAndMethod(t *testing.T) {
	server := httpapi.New(httpapi.Config{Sandboxes: &fakes{id: api.NewSandboxID()}})
	for _, c := range []struct {
		method, path string
		status       int
		says, allow  string
	}{
		{"GET", "/v1/sandboxes", 200, "", ""},
		{"GET", "/v1/sandboxes?all=1&limit=5", 200, "", ""},
		{"GET", "/v1/sandboxes?status=paused", 400, `unknown query parameter \"status\"`, ""},
		{"GET", "/v1/sandboxes?limit=5&limits=6", 400, `unknown query parameter \"limits\"`, ""},
		{"POST", "/v1/sandboxes?template=a", 400, `unknown query parameter \"template\"`, ""},
		{"GET", "/v1/sandboxes?%zz", 400, "cannot be read", ""},
		{"PATCH", "/v1/sandboxes", 405, "use GET or POST", "GET, POST"},
		{"DELETE", "/v1/nosuch", 404, "unknown route", ""},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(c.method, c.path, nil)
		server.ServeHTTP(w, r.WithContext(api.WithPrincipal(t.Context(), api.Operator())))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) || w.Header().Get("Allow") != c.allow {
			t.Errorf("%s %s: %d %s, Allow %q", c.method, c.path, w.Code, w.Body, w.Header().Get("Allow"))
		}
	}
}
