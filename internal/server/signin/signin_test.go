package signin

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store/database"
)

const (
	host   = "127.0.0.1:7070"
	origin = "http://" + host
	secret = "e2b_0123456789012345678901234567890123456789"
)

// desk is a Sessions over a real store, with one key and a clock.
type desk struct {
	*Sessions
	t       *testing.T
	now     time.Time
	key     api.KeyID
	revoked bool
	expires time.Time
}

func newDesk(t *testing.T, change func(*Config)) *desk {
	t.Helper()
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	d := &desk{t: t, now: time.Now(), key: api.NewKeyID()}
	if err := db.InsertKey(t.Context(), api.Key{ID: d.key, Account: "a", Role: api.RoleUser, CreatedAt: d.now}, "hash"); err != nil {
		t.Fatal(err)
	}
	unknown := api.Errorf(api.KindUnauthenticated, "unknown API key")
	principal := func(_ context.Context, id api.KeyID) (api.Principal, error) {
		if id != d.key || d.revoked || !d.expires.IsZero() && !d.now.Before(d.expires) {
			return api.Principal{}, unknown
		}
		return api.Principal{Account: "a", Role: api.RoleUser, Key: id, ExpiresAt: d.expires}, nil
	}
	cfg := Config{
		Rows: db, Principal: principal, Loopback: true, Now: func() time.Time { return d.now },
		Verify: func(ctx context.Context, presented string) (api.Principal, error) {
			if presented != secret {
				return api.Principal{}, unknown
			}
			return principal(ctx, d.key)
		},
		Fail: func(w http.ResponseWriter, err error) {
			w.WriteHeader(map[api.Kind]int{api.KindUnauthenticated: 401, api.KindDenied: 403, api.KindInvalid: 400, api.KindUnavailable: 503, api.KindUnsupported: 501}[api.KindOf(err)])
			_, _ = w.Write([]byte(err.Error()))
		},
	}
	if change != nil {
		change(&cfg)
	}
	d.Sessions = New(cfg)
	return d
}

// request makes a request of the console's page, changed by headers; "" removes one.
func request(method, body string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, Path, strings.NewReader(body))
	r.Host = host
	r.Header.Set("Origin", origin)
	for i := 0; i+1 < len(headers); i += 2 {
		switch name, value := headers[i], headers[i+1]; {
		case name == "Host":
			r.Host = value
		case value == "":
			r.Header.Del(name)
		default:
			r.Header.Set(name, value)
		}
	}
	return r
}

func (d *desk) serve(r *http.Request) (*http.Response, Session) {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	var s Session
	_ = json.Unmarshal(w.Body.Bytes(), &s)
	return w.Result(), s
}

// signIn signs in, and returns the headers of the page's requests.
func (d *desk) signIn() (headers []string) {
	d.t.Helper()
	resp, s := d.serve(request("POST", `{"key":"`+secret+`"}`))
	if resp.StatusCode != http.StatusOK || s.Page == "" || s.Key != d.key || len(resp.Cookies()) != 1 {
		d.t.Fatalf("sign-in: %d, %+v", resp.StatusCode, s)
	}
	return []string{"Cookie", resp.Cookies()[0].Name + "=" + resp.Cookies()[0].Value, Header, s.Page}
}

// who authenticates a request of a page.
func (d *desk) who(r *http.Request) error {
	authenticate := d.Take(r)
	if authenticate == nil {
		return api.Errorf(api.KindUnauthenticated, "no session")
	}
	_, err := authenticate(d.t.Context())
	return err
}

// TestLives ends sessions in every way.
func TestLives(t *testing.T) {
	d := newDesk(t, nil)
	page := d.signIn()
	works := func(want bool) {
		t.Helper()
		if err := d.who(request("GET", "", page...)); (err == nil) != want || err != nil && api.KindOf(err) != api.KindUnauthenticated {
			t.Errorf("after %s: %v", time.Since(d.now), err)
		}
	}
	works(true)
	d.now = d.now.Add(idle - time.Second)
	works(true) // it is used
	d.now = d.now.Add(idle - time.Second)
	works(true)
	d.now = d.now.Add(idle)
	works(false)

	page = d.signIn()
	for range int(life/idle)*2 - 1 {
		d.now = d.now.Add(idle / 2)
		works(true)
	}
	d.now = d.now.Add(idle / 2)
	works(false)

	page = d.signIn()
	d.revoked = true
	works(false)
	d.revoked = false

	page = d.signIn()
	other := d.signIn()
	resp, _ := d.serve(request("DELETE", "", page...))
	if resp.StatusCode != http.StatusNoContent || resp.Cookies()[0].MaxAge >= 0 {
		t.Errorf("sign-out: %d, %+v", resp.StatusCode, resp.Cookies())
	}
	works(false)
	page = other
	works(true) // the session of another browser continues

	for range maxSessions {
		d.signIn()
	}
	works(false) // the oldest makes way
}

// TestTicket uses a ticket twice, and one that is too old.
func TestTicket(t *testing.T) {
	d := newDesk(t, nil)
	ticket, _ := d.Ticket(d.key)
	body := `{"ticket":"` + ticket + `"}`
	if resp, s := d.serve(request("POST", body)); resp.StatusCode != http.StatusOK || s.Key != d.key {
		t.Fatal(resp.StatusCode, s)
	}
	for name, body := range map[string]string{
		"twice": body, "nothing": `{}`, "both": `{"ticket":"` + ticket + `","key":"` + secret + `"}`, "wrong key": `{"key":"` + secret[:10] + `"}`,
		"unknown member": `{"key":"` + secret + `","x":1}`, "no ticket": `{"ticket":"x"}`,
	} {
		if resp, s := d.serve(request("POST", body)); resp.StatusCode < 400 || s.Page != "" || len(resp.Cookies()) > 0 {
			t.Errorf("%s: %d %+v", name, resp.StatusCode, s)
		}
	}
	ticket, ends := d.Ticket(d.key)
	d.now = ends
	if resp, _ := d.serve(request("POST", `{"ticket":"`+ticket+`"}`)); resp.StatusCode != http.StatusUnauthorized {
		t.Error("a ticket that is too old:", resp.StatusCode)
	}
	for range 3 * maxTickets {
		d.Ticket(d.key)
	}
	if len(d.tickets) > maxTickets {
		t.Errorf("%d tickets", len(d.tickets))
	}
}

// TestForeignRequests sends what pages of others and other servers could send, each with a control that differs in one thing.
func TestForeignRequests(t *testing.T) {
	d := newDesk(t, nil)
	page := d.signIn()
	cookie, half := page[:2], page[2:]
	upgrade := []string{"Upgrade", "websocket"}
	for name, c := range map[string]struct {
		method  string
		headers []string
		ok      bool
	}{
		"own page":                   {"POST", page, true},
		"own page, read":             {"GET", append([]string{"Origin", ""}, page...), true},
		"own page, fetch metadata":   {"POST", append([]string{"Sec-Fetch-Site", "same-origin"}, page...), true},
		"own page, WebSocket":        {"GET", append(upgrade, page...), true},
		"CSRF: no origin":            {"POST", append([]string{"Origin", ""}, page...), false},
		"CSRF: other origin":         {"POST", append([]string{"Origin", "https://evil.example"}, page...), false},
		"CSRF: other port":           {"POST", append([]string{"Origin", "http://127.0.0.1:3000"}, page...), false},
		"CSRF: other scheme":         {"POST", append([]string{"Origin", "https://" + host}, page...), false},
		"CSRF: null origin":          {"POST", append([]string{"Origin", "null"}, page...), false},
		"CSRF: same site":            {"POST", append([]string{"Sec-Fetch-Site", "same-site"}, page...), false},
		"CSRF: cross site":           {"DELETE", append([]string{"Sec-Fetch-Site", "cross-site"}, page...), false},
		"read of another site":       {"GET", append([]string{"Origin", "", "Sec-Fetch-Site", "cross-site"}, page...), false},
		"read by a link":             {"GET", append([]string{"Origin", "", "Sec-Fetch-Site", "none"}, page...), false},
		"WebSocket without origin":   {"GET", append([]string{"Upgrade", "websocket", "Origin", ""}, page...), false},
		"WebSocket of another":       {"GET", append([]string{"Upgrade", "websocket", "Origin", "http://evil.example"}, page...), false},
		"rebinding":                  {"POST", append([]string{"Host", "evil.example:7070", "Origin", "http://evil.example:7070"}, page...), false},
		"rebinding below localhost":  {"POST", append([]string{"Host", "x.localhost:7070", "Origin", "http://x.localhost:7070"}, page...), false},
		"localhost":                  {"POST", append([]string{"Host", "localhost:7070", "Origin", "http://localhost:7070"}, page...), true},
		"cookie of another port":     {"POST", cookie, false},
		"storage without the cookie": {"POST", half, false},
		"two cookies":                {"POST", []string{"Cookie", page[1] + "; " + page[1], Header, page[3]}, false},
		"half of another session":    {"POST", append(d.signIn()[:2], half...), false},
	} {
		if err := d.who(request(c.method, "", c.headers...)); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A sign-in for a page of another would sign in the person as somebody else.
	for name, headers := range map[string][]string{
		"CSRF": {"Origin", "https://evil.example"}, "no origin": {"Origin", ""}, "rebinding": {"Host", "evil.example", "Origin", "http://evil.example"},
	} {
		if resp, _ := d.serve(request("POST", `{"key":"`+secret+`"}`, headers...)); resp.StatusCode != http.StatusForbidden {
			t.Errorf("sign-in, %s: %d", name, resp.StatusCode)
		}
	}
}

// TestCookie looks at the cookie over each kind of connection.
func TestCookie(t *testing.T) {
	const public = "hortus.example"
	for name, c := range map[string]struct {
		url     string
		tls     bool
		headers []string
		name    string
		secure  bool
	}{
		"http":                   {"", false, nil, "hortus-session", false},
		"own TLS":                {"", true, []string{"Host", public, "Origin", "https://" + public}, "__Host-hortus-session", true},
		"proxy":                  {"https://" + public, false, []string{"Host", public, "Origin", "https://" + public}, "__Host-hortus-session", true},
		"beside the proxy":       {"https://" + public, false, nil, "hortus-session", false},
		"proxy that is not ours": {"", false, []string{"Host", public, "Origin", "https://" + public}, "", false},
	} {
		d := newDesk(t, func(cfg *Config) { cfg.PublicURL, cfg.Loopback = c.url, !c.tls })
		r := request("POST", `{"key":"`+secret+`"}`, c.headers...)
		if c.tls {
			r.TLS = &tls.ConnectionState{}
		}
		resp, _ := d.serve(r)
		if c.name == "" {
			if len(resp.Cookies()) > 0 || resp.StatusCode != http.StatusForbidden {
				t.Errorf("%s: %d", name, resp.StatusCode)
			}
			continue
		}
		if len(resp.Cookies()) != 1 {
			t.Fatalf("%s: %d", name, resp.StatusCode)
		}
		got := resp.Cookies()[0]
		if got.Name != c.name || got.Secure != c.secure || !got.HttpOnly || got.SameSite != http.SameSiteStrictMode || got.Path != "/" || got.Domain != "" {
			t.Errorf("%s: %s", name, resp.Header["Set-Cookie"])
		}
	}
}

// TestTakeRemoves wants nothing of a session in what is passed on, and everything else there.
func TestTakeRemoves(t *testing.T) {
	d := newDesk(t, nil)
	page := d.signIn()
	r := request("GET", "", "Cookie", "a=1; "+page[1]+"; b=2; __Host-hortus-session=x; hortus-oidc=y; __Host-hortus-oidc=z", Header, page[3])
	if d.Take(r) == nil {
		t.Error("no session")
	}
	if got := r.Header.Get("Cookie"); got != "a=1; b=2" || r.Header.Get(Header) != "" {
		t.Errorf("%q", got)
	}
	if r = request("GET", "", page...); d.Take(r) == nil || r.Header["Cookie"] != nil {
		t.Errorf("%q", r.Header["Cookie"])
	}
}
