package oauth

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/egress/dial"
)

const (
	verifier = "0123456789-0123456789-0123456789-0123456789"
	callback = "https://app.example.org/back?x=1"
	user     = "key-of-alice"
	admin    = "key-of-the-operator"
)

// world is a server with a clock, two keys, and clients' metadata at public names.
type world struct {
	*Server
	t       *testing.T
	now     time.Time
	revoked bool
	used    map[string]bool
	pages   *http.ServeMux
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, now: time.Unix(1_800_000_000, 0), pages: http.NewServeMux(), used: map[string]bool{}}
	pages := httptest.NewTLSServer(w.pages)
	t.Cleanup(pages.Close)
	roots := x509.NewCertPool()
	roots.AddCert(pages.Certificate())
	private := dial.New(dial.Config{Resolver: resolver{}})
	var err error
	w.Server, err = New(Config{
		URL: "https://hortus.example.org", Secret: []byte("secret"), Roots: roots, Now: func() time.Time { return w.now }, Use: w.use,
		Verify: func(_ context.Context, key string) (api.Principal, error) {
			switch {
			case key == user && !w.revoked:
				return api.Principal{Account: "alice", Role: api.RoleUser}, nil
			case key == admin:
				return api.Principal{Account: "ops", Role: api.RoleAdmin}, nil
			}
			return api.Principal{}, api.Errorf(api.KindUnauthenticated, "unknown API key")
		},
		// example.com is public here; whatever else has to pass the dialer of egress.
		Dial: func(ctx context.Context, host string, port int) (net.Conn, error) {
			if host == "example.com" && port == 443 {
				return new(net.Dialer).DialContext(ctx, "tcp", pages.Listener.Addr().String())
			}
			c, _, err := private.Dial(ctx, host, port, false)
			return c, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) use(_ context.Context, id string, ends time.Time) (bool, error) {
	if !ends.After(w.now) {
		w.t.Errorf("a code ends at %s", ends)
	}
	defer func() { w.used[id] = true }()
	return !w.used[id], nil
}

// resolver has names that lead to private addresses.
type resolver struct{}

func (resolver) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	a, ok := map[string]string{"local.example.net": "127.0.0.1", "lan.example.net": "10.0.0.1", "metadata.example.net": "169.254.169.254", "six.example.net": "::ffff:127.0.0.1"}[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{netip.MustParseAddr(a)}, nil
}

func (w *world) do(method, target, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "https://hortus.example.org"+target, strings.NewReader(body))
	if method == http.MethodPost && strings.Contains(body, "=") {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	out := httptest.NewRecorder()
	if !w.Takes(r) {
		w.t.Fatalf("%s is not taken", target)
	}
	w.ServeHTTP(out, r)
	return out
}

func (w *world) registered(metadata string) string {
	w.t.Helper()
	var out struct {
		ID string `json:"client_id"`
	}
	r := w.do("POST", pathRegister, metadata)
	if err := json.Unmarshal(r.Body.Bytes(), &out); err != nil || r.Code != http.StatusCreated {
		w.t.Fatalf("register: %d %s", r.Code, r.Body)
	}
	return out.ID
}

func (w *world) client() string {
	return w.registered(fmt.Sprintf(`{"client_name":"<b>App</b>\u0007","redirect_uris":[%q,"http://127.0.0.1:1/back"]}`, callback))
}

// query is that of a request for authorization; more has replacements, "" for what is left out.
func query(client string, more ...string) string {
	q := url.Values{
		"response_type": {"code"}, "client_id": {client}, "redirect_uri": {callback}, "state": {"s&t"}, "code_challenge": {hashOf(verifier)},
		"code_challenge_method": {"S256"}, "resource": {"https://hortus.example.org/mcp"},
	}
	for i := 0; i < len(more); i += 2 {
		if q.Del(more[i]); more[i+1] != "" {
			q.Set(more[i], more[i+1])
		}
	}
	return pathAuthorize + "?" + q.Encode()
}

var hidden = regexp.MustCompile(`name="request" value="([^"]+)"`)

// asked returns the request that the page of consent holds.
func (w *world) asked(target string) string {
	w.t.Helper()
	r := w.do("GET", target, "")
	found := hidden.FindStringSubmatch(r.Body.String())
	if r.Code != http.StatusOK || found == nil {
		w.t.Fatalf("the page: %d %s", r.Code, r.Body)
	}
	return found[1]
}

// allowed returns the code of a person who allows a request.
func (w *world) allowed(target string) string {
	w.t.Helper()
	r := w.do("POST", pathAuthorize, url.Values{"request": {w.asked(target)}, "key": {user}, "decision": {"allow"}}.Encode())
	u, err := url.Parse(r.Header().Get("Location"))
	if q := u.Query(); err != nil || r.Code != http.StatusSeeOther || q.Get("code") == "" || q.Get("state") != "s&t" || q.Get("iss") != "https://hortus.example.org" {
		w.t.Fatalf("consent: %d %v %s", r.Code, r.Header(), r.Body)
	}
	return u.Query().Get("code")
}

type tokens struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	Expires int    `json:"expires_in"`
	Error   string `json:"error"`
}

func (w *world) tokens(form url.Values) (out tokens) {
	w.t.Helper()
	r := w.do("POST", pathToken, form.Encode())
	if err := json.Unmarshal(r.Body.Bytes(), &out); err != nil || (r.Code == http.StatusOK) != (out.Error == "") || r.Header().Get("Cache-Control") != "no-store" {
		w.t.Fatalf("token: %d %s", r.Code, r.Body)
	}
	return out
}

func exchange(client, code string, more ...string) url.Values {
	f := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "client_id": {client}, "redirect_uri": {callback}, "code_verifier": {verifier}, "resource": {"https://hortus.example.org/mcp"}}
	for i := 0; i < len(more); i += 2 {
		f.Set(more[i], more[i+1])
	}
	return f
}

func TestSignIn(t *testing.T) {
	w := newWorld(t)
	id := w.client()
	page := w.do("GET", query(id), "")
	if policy := page.Header().Get("Content-Security-Policy"); policy != "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self' https://app.example.org" {
		t.Errorf("the policy is %s", policy)
	}
	if text := page.Body.String(); !strings.Contains(text, "&lt;b&gt;App&lt;/b&gt;") || strings.Contains(text, "<b>") || strings.Contains(text, "\a") || !strings.Contains(text, "app.example.org") {
		t.Errorf("the page is %s", text)
	}
	got := w.tokens(exchange(id, w.allowed(query(id))))
	if key, err := w.Key(got.Access); err != nil || key != user || got.Expires != 3600 || strings.Contains(got.Access+got.Refresh, user) {
		t.Errorf("the token is %q, %v: %+v", key, err, got)
	}
	again := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {got.Refresh}, "client_id": {id}}
	w.now = w.now.Add(accessLife)
	if _, err := w.Key(got.Access); api.KindOf(err) != api.KindUnauthenticated {
		t.Errorf("a token that has ended: %v", err)
	}
	next := w.tokens(again)
	if key, err := w.Key(next.Access); err != nil || key != user {
		t.Errorf("a new token: %q, %v", key, err)
	}
	if other := w.tokens(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {got.Refresh}, "client_id": {w.registered(`{"redirect_uris":["https://evil.example/"]}`)}}); other.Error != "invalid_grant" {
		t.Errorf("another client: %+v", other)
	}
	w.revoked = true
	if r := w.tokens(again); r.Error != "invalid_grant" {
		t.Errorf("a revoked key: %+v", r)
	}
	w.revoked, w.now = false, w.now.Add(refreshLife)
	again.Set("refresh_token", next.Refresh)
	if r := w.tokens(again); r.Error != "invalid_grant" {
		t.Errorf("the end of the consent: %+v", r)
	}
	if key, err := w.Key("an API key"); key != "an API key" || err != nil {
		t.Errorf("what is no token: %q, %v", key, err)
	}
	// A program on the person's machine takes any port.
	w.asked(query(id, "redirect_uri", "http://127.0.0.1:54321/back"))
}

// TestCode: a code works once, soon, and for what it was made for.
func TestCode(t *testing.T) {
	w := newWorld(t)
	id, other := w.client(), w.client()
	once := exchange(id, w.allowed(query(id)))
	if r := w.tokens(once); r.Error != "" {
		t.Fatalf("the control: %+v", r)
	}
	if r := w.tokens(once); r.Error != "invalid_grant" {
		t.Errorf("a code a second time: %+v", r)
	}
	for name, change := range map[string][]string{
		"a wrong verifier": {"code_verifier", strings.Repeat("x", 43)}, "no verifier": {"code_verifier", ""}, "the challenge": {"code_verifier", hashOf(verifier)},
		"another client": {"client_id", other}, "another redirect URI": {"redirect_uri", "http://127.0.0.1:1/back"}, "no redirect URI": {"redirect_uri", ""},
		"a token": {"code", w.tokens(exchange(id, w.allowed(query(id)))).Access}, "a request": {"code", w.asked(query(id))}, "no code": {"code", ""},
	} {
		if r := w.tokens(exchange(id, w.allowed(query(id)), change...)); r.Error != "invalid_grant" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	// A guess ends the code.
	code := w.allowed(query(id))
	w.tokens(exchange(id, code, "code_verifier", strings.Repeat("x", 43)))
	if r := w.tokens(exchange(id, code)); r.Error != "invalid_grant" {
		t.Errorf("after a guess: %+v", r)
	}
	if r := w.tokens(exchange(id, w.allowed(query(id)), "resource", "https://hortus.example.org/v1")); r.Error != "invalid_target" {
		t.Errorf("another resource: %+v", r)
	}
	code = w.allowed(query(id))
	w.now = w.now.Add(codeLife)
	if r := w.tokens(exchange(id, code)); r.Error != "invalid_grant" {
		t.Errorf("a code that has ended: %+v", r)
	}
	if r := w.tokens(url.Values{"grant_type": {"password"}, "username": {"x"}}); r.Error != "unsupported_grant_type" {
		t.Errorf("another grant: %+v", r)
	}
}

// TestOtherDaemon: a token of a daemon with another secret or another URL is none here, nor is one thing used as another.
func TestOtherDaemon(t *testing.T) {
	w := newWorld(t)
	id := w.client()
	got := w.tokens(exchange(id, w.allowed(query(id))))
	for name, cfg := range map[string]Config{
		"another secret": {URL: "https://hortus.example.org", Secret: []byte("other")}, "another URL": {URL: "https://other.example.org", Secret: []byte("secret")},
	} {
		cfg.Now = func() time.Time { return w.now }
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Key(got.Access); api.KindOf(err) != api.KindUnauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, forged := range []string{
		kindAccess, kindAccess + "AAAA", kindAccess + strings.TrimPrefix(got.Refresh, kindRefresh), kindAccess + strings.TrimPrefix(id, kindClient),
		got.Access + "A", got.Access[:len(got.Access)-1], kindAccess + strings.Repeat("A", maxSealed),
	} {
		if _, err := w.Key(forged); api.KindOf(err) != api.KindUnauthenticated {
			t.Errorf("%.60s: %v", forged, err)
		}
	}
	for _, bad := range []string{"", "hortus.example.org", "http://hortus.example.org", "https://hortus.example.org/", "https://hortus.example.org/x", "https://Hortus.example.org", "https://u@hortus.example.org"} {
		if _, err := New(Config{URL: bad}); api.KindOf(err) != api.KindInvalid {
			t.Errorf("the URL %q: %v", bad, err)
		}
	}
}

// TestRequests: nothing is sent to an address that the client does not list, and only a person with a user's key consents.
func TestRequests(t *testing.T) {
	w := newWorld(t)
	id := w.client()
	for name, target := range map[string]string{
		"another redirect URI": query(id, "redirect_uri", "https://evil.example/back"), "one that begins so": query(id, "redirect_uri", callback+"2"),
		"another path": query(id, "redirect_uri", "http://127.0.0.1:1/other"), "localhost for the address": query(id, "redirect_uri", "http://localhost:1/back"),
		"a script": query(id, "redirect_uri", "javascript:alert(1)"), "none": query(id, "redirect_uri", ""), "two": query(id) + "&redirect_uri=https://evil.example/",
		"two clients": query(id) + "&client_id=x", "a changed client": query(id + "A"), "no client": query(""), "a long state": query(id, "state", strings.Repeat("x", maxState+1)),
	} {
		if r := w.do("GET", target, ""); r.Code != http.StatusBadRequest || r.Header().Get("Location") != "" || strings.Contains(r.Body.String(), "<form") {
			t.Errorf("%s: %d %v %s", name, r.Code, r.Header(), r.Body)
		}
	}
	for wrong, target := range map[string]string{
		"unsupported_response_type": query(id, "response_type", "token"), "invalid_request": query(id, "code_challenge_method", "plain"), "invalid_target": query(id, "resource", "https://hortus.example.org/v1"),
	} {
		r := w.do("GET", target, "")
		if u, err := url.Parse(r.Header().Get("Location")); err != nil || u.Host != "app.example.org" || u.Query().Get("error") != wrong || u.Query().Get("x") != "1" || u.Query().Get("state") != "s&t" {
			t.Errorf("%s: %d %v", wrong, r.Code, r.Header())
		}
	}
	answer := func(key, decision string) string {
		return url.Values{"request": {w.asked(query(id))}, "key": {key}, "decision": {decision}}.Encode()
	}
	for name, c := range map[string]struct {
		body   string
		status int
		header []string
	}{
		"a wrong key": {answer("x", "allow"), 403, nil}, "no key": {answer("", "allow"), 403, nil}, "an admin's key": {answer(admin, "allow"), 403, nil},
		"a forged request":        {url.Values{"request": {"hoq_x"}, "key": {user}, "decision": {"allow"}}.Encode(), 400, nil},
		"a page of another":       {answer(user, "allow"), 403, []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}},
		"another page, by Origin": {answer(user, "allow"), 403, []string{"Origin", "https://evil.example"}},
		"a large body":            {answer(user, "allow") + "&x=" + strings.Repeat("x", maxForm), 400, nil},
	} {
		if r := w.do("POST", pathAuthorize, c.body, c.header...); r.Code != c.status || r.Header().Get("Location") != "" {
			t.Errorf("%s: %d %v", name, r.Code, r.Header())
		}
	}
	r := w.do("POST", pathAuthorize, answer(user, "deny"))
	if u, err := url.Parse(r.Header().Get("Location")); err != nil || u.Query().Get("error") != "access_denied" || u.Query().Get("code") != "" {
		t.Errorf("a no: %d %v", r.Code, r.Header())
	}
	late := answer(user, "allow")
	w.now = w.now.Add(requestLife)
	if r := w.do("POST", pathAuthorize, late); r.Code != http.StatusBadRequest {
		t.Errorf("a late answer: %d", r.Code)
	}
}

// TestRegistration: what a client says is bounded, and a flood of registrations leaves nothing behind.
func TestRegistration(t *testing.T) {
	w := newWorld(t)
	for _, bad := range []string{
		"", "[]", "{}", `{"redirect_uris":[]}`, `{"redirect_uris":["http://evil.example/"]}`, `{"redirect_uris":["javascript:alert(1)"]}`, `{"redirect_uris":["https://u:p@a.example/"]}`,
		`{"redirect_uris":["https://a.example/#f"]}`, `{"redirect_uris":["https://a.example;script-src *"]}`, `{"redirect_uris":["//a.example/"]}`, `{"redirect_uris":["https:a.example"]}`,
		`{"redirect_uris":["` + strings.Repeat(`https://a.example/","`, 10) + `https://a.example/"]}`, `{"redirect_uris":["https://a.example/` + strings.Repeat("x", maxURI) + `"]}`,
		`{"client_name":"` + strings.Repeat("x", maxForm) + `","redirect_uris":["https://a.example/"]}`,
	} {
		if r := w.do("POST", pathRegister, bad); r.Code != http.StatusBadRequest {
			t.Errorf("%.80s: %d %s", bad, r.Code, r.Body)
		}
	}
	// The longest that is taken can be used.
	long := `"` + callback + `"`
	for range maxRedirects - 1 {
		long += `,"https://a.example/` + strings.Repeat("x", maxURI-20) + `"`
	}
	id := w.registered(`{"client_name":"` + strings.Repeat("ä", 200) + `","redirect_uris":[` + long + `]}`)
	if r := w.tokens(exchange(id, w.allowed(query(id)))); r.Error != "" {
		t.Errorf("a long client: %+v", r)
	}
	for range 10_000 {
		w.registered(`{"redirect_uris":["https://a.example/"]}`)
	}
	if len(w.used) != 1 {
		t.Errorf("%d codes are remembered", len(w.used))
	}
}

// TestMetadata: the metadata of a client is fetched from public addresses only, and must be that of its URL.
func TestMetadata(t *testing.T) {
	w := newWorld(t)
	serve := func(path, body string) {
		w.pages.HandleFunc(path, func(o http.ResponseWriter, _ *http.Request) { fmt.Fprint(o, body) })
	}
	document := func(id string) string {
		return fmt.Sprintf(`{"client_id":%q,"client_name":"App","redirect_uris":[%q]}`, id, callback)
	}
	const good = "https://example.com/client.json"
	serve("/client.json", document(good))
	serve("/other", document(good))
	serve("/large", document("https://example.com/large")+strings.Repeat(" ", maxMetadata))
	serve("/text", "hello")
	serve("/none", `{"client_id":"https://example.com/none"}`)
	w.pages.HandleFunc("/moved", func(o http.ResponseWriter, r *http.Request) { http.Redirect(o, r, "/client.json", http.StatusFound) })
	if r := w.tokens(exchange(good, w.allowed(query(good)))); r.Error != "" {
		t.Errorf("the control: %+v", r)
	}
	if page := w.do("GET", query(good), "").Body.String(); !strings.Contains(page, "described at "+good) {
		t.Errorf("the page: %s", page)
	}
	for _, bad := range []string{
		"https://example.com/other", "https://example.com/large", "https://example.com/text", "https://example.com/none", "https://example.com/moved", "https://example.com/missing",
		"http://example.com/client.json", "https://example.com", "https://example.com/", "https://example.com:8443/client.json", "https://u@example.com/client.json", good + "?x", good + "#x",
		"https://127.0.0.1/client.json", "https://[::1]/client.json", "https://10.0.0.1/c", "https://169.254.169.254/latest/meta-data", "https://localhost/c", "https://0x7f000001/c", "https://2130706433/c",
		"https://local.example.net/c", "https://lan.example.net/c", "https://metadata.example.net/c", "https://six.example.net/c", "https://nowhere.example.net/c", "file:///etc/passwd", "https:///c",
	} {
		if r := w.do("GET", query(bad), ""); r.Code != http.StatusBadRequest || strings.Contains(r.Body.String(), "<form") {
			t.Errorf("%s: %d %s", bad, r.Code, r.Body)
		}
	}
	for range maxFetches {
		w.fetches <- struct{}{}
	}
	if r := w.do("GET", query(good), ""); r.Code != http.StatusBadRequest || !strings.Contains(r.Body.String(), "too many clients") {
		t.Errorf("one more than are looked up at a time: %d %s", r.Code, r.Body)
	}
}
