package daemon

import (
	"context"
	"encoding/base64"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/quota"
	"hortus.dev/internal/server/access"
	"hortus.dev/internal/server/envd"
	"hortus.dev/internal/server/front"
	"hortus.dev/internal/server/key"
	"hortus.dev/test/world"
)

// TestBrowserPages sends what a browser sends for a page of another origin, one whose
// name was made to lead here among them.
func TestBrowserPages(t *testing.T) {
	w := newTown(t)
	for name, headers := range map[string][]string{
		"cross-origin":     {"Origin", "https://evil.example", "X-API-KEY", w.bob.Secret},
		"no origin at all": {"Origin", "null", "X-API-KEY", w.bob.Secret},
		"cross-site":       {"Sec-Fetch-Site", "cross-site", "X-API-KEY", w.bob.Secret},
		"same-site":        {"Sec-Fetch-Site", "same-site", "X-API-KEY", w.bob.Secret},
	} {
		for _, method := range []string{"GET", "POST"} {
			if status, answer := w.Call(method, "/v1/sandboxes", "{}", headers...); status != http.StatusForbidden {
				t.Errorf("%s, %s: %d %s", method, name, status, answer)
			}
			if status, answer := w.Call(method, "/v2/sandboxes", "{}", headers...); status != http.StatusForbidden || !strings.Contains(answer, `"code":403`) {
				t.Errorf("%s on E2B's wire, %s: %d %s", method, name, status, answer)
			}
		}
	}
	// A preflight gets no permission; call looks at the headers of every answer.
	if status, _ := w.Call("OPTIONS", "/v1/sandboxes", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "x-api-key"); status < 400 {
		t.Errorf("a preflight is answered with %d", status)
	}
	// With a name of its own that resolves to this machine a page has the same origin
	// as the API. It has no key all the same, and nothing lends it one.
	rebound := []string{"Host", "evil.example:7070", "Origin", "http://evil.example:7070", "Sec-Fetch-Site", "same-origin"}
	for _, method := range []string{"GET", "POST"} {
		if status, answer := w.Call(method, "/v1/sandboxes", "{}", rebound...); status != http.StatusUnauthorized {
			t.Errorf("%s by a name of the attacker's: %d %s", method, status, answer)
		}
	}
	// The control: a page of the API's own origin with a key.
	own := strings.TrimPrefix(w.URL, "http://")
	if status, answer := w.Call("GET", "/v1/sandboxes", "", "Host", own, "Origin", w.URL, "Sec-Fetch-Site", "same-origin", "X-API-KEY", w.bob.Secret); status != http.StatusOK {
		t.Errorf("a page of its own: %d %s", status, answer)
	}
}

// authenticate knows the keys of a daemon.
func authenticate(w *town) func(context.Context, string) (api.Principal, error) {
	return access.NewAuthenticator(key.New(key.Config{Rows: w.DB}), quota.NewRates(quota.RatesConfig{})).Authenticate
}

// TestKeyEndsAtTheFront looks at what a server gets to see.
func TestKeyEndsAtTheFront(t *testing.T) {
	w := newTown(t)
	var got http.Header
	var who api.Principal
	f := &front.Front{Authenticate: authenticate(w), Servers: []front.Server{{
		Takes: front.Below("/"), Keyed: true,
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got, who = r.Header, api.PrincipalOf(r.Context()) }),
	}}}
	for _, c := range []struct{ send, keep []string }{
		{[]string{"X-Api-Key", w.bob.Secret}, nil},
		{[]string{"Authorization", "Bearer " + w.bob.Secret}, nil},
		{[]string{"Authorization", "bEARER  " + w.bob.Secret}, nil},
		{[]string{"X-Api-Key", w.bob.Secret, "Authorization", "Basic cm9vdDo="}, []string{"Authorization", "Basic cm9vdDo="}},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		for i := 0; i < len(c.send); i += 2 {
			r.Header.Set(c.send[i], c.send[i+1])
		}
		got, who = nil, api.Principal{}
		f.ServeHTTP(httptest.NewRecorder(), r)
		if who.Account != "bob" || who.Role != api.RoleUser || who.Key != w.bob.ID {
			t.Errorf("%q: on behalf of %+v", c.send, who)
		}
		for name, values := range got {
			if strings.Contains(strings.Join(values, " "), w.bob.Secret) {
				t.Errorf("%q: the key goes on in %s", c.send, name)
			}
		}
		for i := 0; i < len(c.keep); i += 2 {
			if got.Get(c.keep[i]) != c.keep[i+1] {
				t.Errorf("%q: %s is %q", c.send, c.keep[i], got.Get(c.keep[i]))
			}
		}
	}
}

// TestKeysReachNoProgram sends keys and tokens that a daemon made through its own front
// to a program in a sandbox.
func TestKeysReachNoProgram(t *testing.T) {
	w := newTown(t)
	row := tokens(w.World)
	var got *http.Request
	program := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r }))
	defer program.Close()
	plane := envd.New(envd.Config{Sandboxes: portOnly{id: w.bobs.sandbox, addr: program.Listener.Addr().String()}, Tokens: row})
	f := &front.Front{Rest: soon, Authenticate: authenticate(w), Servers: []front.Server{{Takes: envd.Claims, Handler: plane, AnyOrigin: true}}}
	server := httptest.NewServer(f)
	defer server.Close()
	for _, secret := range []string{w.bob.Secret, w.operator.Secret, row.Envd(string(w.bobs.sandbox)), row.Traffic(string(w.bobs.sandbox))} {
		for _, value := range []string{secret, "Bearer " + secret, "Basic " + base64.StdEncoding.EncodeToString([]byte(secret+":")), "Bearer its-own"} {
			req := world.Must(http.NewRequestWithContext(t.Context(), "GET", server.URL+"/a?k="+secret, nil))(t)
			req.Host = "3000-" + string(w.bobs.sandbox) + ".x"
			req.Header.Set("Authorization", value)
			got = nil
			resp := world.Must(http.DefaultTransport.RoundTrip(req))(t)
			resp.Body.Close()
			want := ""
			if value == "Bearer its-own" {
				want = value
			}
			if got == nil || got.Header.Get("Authorization") != want || got.RequestURI != "/a" {
				t.Errorf("%q: status %d, the program was sent %+v", value, resp.StatusCode, got)
			}
		}
	}
}

// portOnly is a running sandbox with one program that listens.
type portOnly struct {
	envd.Sandboxes
	id   api.SandboxID
	addr string
}

// Get implements envd.Sandboxes.
func (p portOnly) Get(context.Context, api.SandboxID) (api.Sandbox, error) {
	return api.Sandbox{ID: p.id, State: api.SandboxRunning}, nil
}

// Count implements envd.Sandboxes.
func (portOnly) Count(context.Context, api.SandboxID) error { return nil }

// Dial implements envd.Sandboxes.
func (p portOnly) Dial(context.Context, api.SandboxID, int) (net.Conn, error) {
	return net.Dial("tcp", p.addr)
}
