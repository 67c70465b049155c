package signin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/server/openid"
	"hortus.dev/test/openidserver"
)

// people are keys in memory.
type people struct {
	d    *desk
	has  map[string]string // account and role by subject
	left []string
}

func (p *people) Personal(_ context.Context, who api.Person, account string, role api.Role) (api.Key, error) {
	p.has[who.Subject] = account + ":" + string(role)
	return api.Key{ID: p.d.key}, nil
}

func (p *people) Leave(_ context.Context, who api.Person) error {
	delete(p.has, who.Subject)
	p.left = append(p.left, who.Subject)
	return nil
}

const (
	clientSecret = "secret of the client"
	callback     = origin + openid.CallbackPath
)

// team is a desk with a provider.
type team struct {
	*desk
	provider *openidserver.Provider
	people   *people
}

func newTeam(t *testing.T, change func(*openid.Config)) *team {
	t.Helper()
	p := openidserver.New(t, openidserver.Config{ClientID: "hortus", Secret: clientSecret, Redirect: callback})
	used := map[string]bool{}
	w := &team{provider: p, people: &people{has: map[string]string{}}}
	w.desk = newDesk(t, func(cfg *Config) {
		oc := openid.Config{
			Issuer: p.URL, ClientID: "hortus", PublicURL: origin, Scopes: []string{"email"}, Claim: "groups", Domains: []string{"example.org"},
			Rules:  []openid.Rule{{Value: "admins", Account: "default", Role: api.RoleAdmin}, {Value: "developers", Account: "team", Role: api.RoleUser}},
			Secret: func(context.Context, string) (string, error) { return clientSecret, nil },
			Now:    func() time.Time { return w.desk.now },
			Use: func(_ context.Context, state string, _ time.Time) (bool, error) {
				defer func() { used[state] = true }()
				return !used[state], nil
			},
		}
		if change != nil {
			change(&oc)
		}
		var err error
		if cfg.OpenID, err = openid.New(oc); err != nil {
			t.Fatal(err)
		}
		cfg.PublicURL, cfg.People = origin, w.people
	})
	w.people.d = w.desk
	w.is(nil)
	return w
}

// is has Ada sign in from now on, changed by claims.
func (w *team) is(change map[string]any) {
	c := map[string]any{"sub": "1", "email": "ada@example.org", "email_verified": true, "groups": []string{"x", "developers"}}
	for name, v := range change {
		c[name] = v
	}
	w.provider.Claims(c)
}

// tab is a page that has begun a sign-in.
type tab struct {
	cookie string
	url    string
	answer openIDAnswer
}

// begin begins a sign-in.
func (w *team) begin() tab {
	w.t.Helper()
	rec := httptest.NewRecorder()
	w.ServeOpenID(rec, request("POST", ""))
	var o Offer
	if err := json.Unmarshal(rec.Body.Bytes(), &o); err != nil || rec.Code != http.StatusOK || len(rec.Result().Cookies()) != 1 {
		w.t.Fatalf("begin: %d %s %v", rec.Code, rec.Body, err)
	}
	c := rec.Result().Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.MaxAge <= 0 || c.MaxAge > 600 {
		w.t.Errorf("cookie %s", rec.Header()["Set-Cookie"])
	}
	return tab{cookie: c.Name + "=" + c.Value, url: o.URL, answer: openIDAnswer{Page: o.Page}}
}

// visit goes to the provider and back, and returns the tab with the provider's answer.
func (w *team) visit(at tab) tab {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), "GET", at.url, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		w.t.Fatal(err)
	}
	resp.Body.Close()
	back, err := resp.Location()
	if err != nil {
		w.t.Fatalf("the provider: %d, %v", resp.StatusCode, err)
	}
	parts := w.callback(back.RawQuery)
	if len(parts) != 5 || parts[1] != "oidc" {
		w.t.Fatalf("callback: %q", parts)
	}
	at.answer.State, at.answer.Code, at.answer.Issuer = parts[2], parts[3], parts[4]
	return at
}

// callback returns the parts of the address that the callback leads to.
func (w *team) callback(query string) []string {
	w.t.Helper()
	r := request("GET", "", "Origin", "", "Sec-Fetch-Site", "cross-site")
	r.URL = &url.URL{Path: openid.CallbackPath, RawQuery: query}
	rec := httptest.NewRecorder()
	w.ServeCallback(rec, r)
	to := rec.Header().Get("Location")
	if rec.Code != http.StatusSeeOther || !strings.HasPrefix(to, "/#/") || len(rec.Result().Cookies()) > 0 {
		w.t.Fatalf("callback: %d %q", rec.Code, to)
	}
	parts := strings.Split(strings.TrimPrefix(to, "/#"), "/")
	for i := range parts {
		var err error
		if parts[i], err = url.PathUnescape(parts[i]); err != nil {
			w.t.Fatal(err)
		}
	}
	return parts
}

// finish ends a sign-in.
func (w *team) finish(at tab, headers ...string) (int, string) {
	w.t.Helper()
	body, err := json.Marshal(signInRequest{OpenID: &at.answer})
	if err != nil {
		w.t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, request("POST", string(body), append([]string{"Cookie", at.cookie}, headers...)...))
	session := false
	for _, c := range rec.Result().Cookies() {
		session = session || c.Name == cookieName && c.Value != ""
	}
	if session != (rec.Code == http.StatusOK) {
		w.t.Errorf("%d, and a session: %v", rec.Code, session)
	}
	return rec.Code, rec.Body.String()
}

// TestOpenID signs in, with each rule, and out of a group.
func TestOpenID(t *testing.T) {
	w := newTeam(t, nil)
	sign := func() (int, string) { return w.finish(w.visit(w.begin())) }
	if code, text := sign(); code != http.StatusOK || w.people.has["1"] != "team:user" {
		t.Fatalf("%d %s, %v", code, text, w.people.has)
	}
	w.is(map[string]any{"groups": []string{"developers", "admins"}})
	if code, text := sign(); code != http.StatusOK || w.people.has["1"] != "default:admin" {
		t.Errorf("the first rule that matches: %d %s, %v", code, text, w.people.has)
	}
	w.is(map[string]any{"groups": []string{"x"}})
	code, text := sign()
	if code != http.StatusForbidden || len(w.people.left) != 1 || w.people.has["1"] != "" || !strings.Contains(text, `"x"`) {
		t.Errorf("a group that is gone: %d %s, %v", code, text, w.people)
	}
}

// TestOpenIDAttacks changes one thing of a sign-in that works.
func TestOpenIDAttacks(t *testing.T) {
	w := newTeam(t, nil)
	mallory := func() tab { // another browser, with an answer for itself
		return w.visit(w.begin())
	}
	for name, c := range map[string]struct {
		claims, header map[string]any
		lenient        bool
		change         func(mine tab) tab
		headers        []string
		want           int
	}{
		"control":                         {want: 200},
		"control: several audiences":      {claims: map[string]any{"aud": []string{"hortus", "other"}, "azp": "hortus"}, want: 200},
		"control: a clock is 30 s late":   {claims: map[string]any{"exp": time.Now().Add(-30 * time.Second).Unix()}, want: 200},
		"control: verified, as a text":    {claims: map[string]any{"email_verified": "true"}, want: 200},
		"no state":                        {change: func(m tab) tab { m.answer.State = ""; return m }, want: 401},
		"wrong state":                     {change: func(m tab) tab { m.answer.State = mallory().answer.State; return m }, want: 401},
		"no cookie":                       {change: func(m tab) tab { m.cookie = ""; return m }, want: 401},
		"forged cookie":                   {change: func(m tab) tab { m.cookie = openIDCookie + "=AAAA"; return m }, want: 401},
		"two cookies":                     {change: func(m tab) tab { m.cookie += "; " + m.cookie; return m }, want: 401},
		"no text of the page":             {change: func(m tab) tab { m.answer.Page = ""; return m }, want: 401},
		"login CSRF: the whole answer":    {change: func(m tab) tab { o := mallory().answer; o.Page = m.answer.Page; m.answer = o; return m }, want: 401},
		"login CSRF: with the cookie too": {change: func(m tab) tab { o := mallory(); o.answer.Page = m.answer.Page; return o }, want: 401},
		"code of another sign-in":         {change: func(m tab) tab { m.answer.Code = mallory().answer.Code; return m }, want: 401},
		"request of another page":         {headers: []string{"Origin", "https://evil.example"}, want: 403},
		"request without an origin":       {headers: []string{"Origin", ""}, want: 403},
		"answer of another provider":      {change: func(m tab) tab { m.answer.Issuer = "https://evil.example"; return m }, want: 401},
		"nonce of another sign-in":        {claims: map[string]any{"nonce": "x"}, want: 401},
		"no nonce":                        {claims: map[string]any{"nonce": nil}, want: 401},
		"another audience":                {claims: map[string]any{"aud": "other"}, want: 401},
		"another party":                   {claims: map[string]any{"aud": []string{"hortus", "other"}, "azp": "other"}, want: 401},
		"audiences and no party":          {claims: map[string]any{"aud": []string{"hortus", "other"}}, want: 401},
		"expired":                         {claims: map[string]any{"exp": time.Now().Add(-2 * time.Minute).Unix()}, want: 401},
		"no expiry":                       {claims: map[string]any{"exp": nil}, want: 401},
		"not yet valid":                   {claims: map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}, want: 401},
		"another issuer":                  {claims: map[string]any{"iss": "https://evil.example"}, want: 401},
		"no subject":                      {claims: map[string]any{"sub": nil}, want: 401},
		"algorithm none":                  {header: map[string]any{"alg": "none"}, want: 401},
		"HS256 with the public key":       {header: map[string]any{"alg": "HS256"}, want: 401},
		"key of nobody":                   {header: map[string]any{"kid": "2"}, want: 401},
		"unverified e-mail":               {claims: map[string]any{"email_verified": false}, want: 403},
		"e-mail of unknown verification":  {claims: map[string]any{"email_verified": nil}, want: 403},
		"no e-mail":                       {claims: map[string]any{"email": nil}, want: 403},
		"another domain":                  {claims: map[string]any{"email": "ada@evil.example"}, want: 403},
		"a domain below":                  {claims: map[string]any{"email": "ada@x.example.org"}, want: 403},
		"two domains":                     {claims: map[string]any{"email": "ada@evil.example@example.org"}, want: 403},
		"no groups":                       {claims: map[string]any{"groups": nil}, want: 403},
		"groups of another form":          {claims: map[string]any{"groups": map[string]any{"admins": true}}, want: 403},
		"a group that begins alike":       {claims: map[string]any{"groups": []string{"developers2", "Admins"}}, want: 403},
	} {
		w.is(c.claims)
		w.provider.Header(c.header)
		mine := w.visit(w.begin())
		if c.change != nil {
			mine = c.change(mine)
		}
		if code, text := w.finish(mine, c.headers...); code != c.want {
			t.Errorf("%s: %d, want %d: %s", name, code, c.want, text)
		}
	}
}

// TestOpenIDOnce replays an answer, also at a provider that accepts a code twice, and uses one that is too old.
func TestOpenIDOnce(t *testing.T) {
	w := newTeam(t, nil)
	for _, lenient := range []bool{false, true} {
		w.provider.Lenient(lenient)
		mine := w.visit(w.begin())
		if code, text := w.finish(mine); code != http.StatusOK {
			t.Fatalf("control: %d %s", code, text)
		}
		if code, text := w.finish(mine); code != http.StatusUnauthorized {
			t.Errorf("a code again, lenient %v: %d %s", lenient, code, text)
		}
	}
	mine := w.visit(w.begin())
	w.now = w.now.Add(openid.Life - time.Second)
	w.is(map[string]any{"exp": w.now.Add(time.Minute).Unix()})
	if code, text := w.finish(mine); code != http.StatusOK {
		t.Errorf("control: %d %s", code, text)
	}
	mine = w.visit(w.begin())
	w.now = w.now.Add(openid.Life)
	w.is(map[string]any{"exp": w.now.Add(time.Minute).Unix()})
	if code, text := w.finish(mine); code != http.StatusUnauthorized {
		t.Errorf("a sign-in that took too long: %d %s", code, text)
	}
}

// TestCallback wants no other address than the console's page, whatever the query says.
func TestCallback(t *testing.T) {
	w := newTeam(t, nil)
	for query, want := range map[string]string{
		"state=a&code=b&iss=c":                     "/oidc/a/b/c",
		"state=//evil.example&code=%2f%2fx":        "/oidc///evil.example///x/",
		"code=b&to=https://evil.example":           "/oidc//b/",
		"state=%0d%0aLocation:%20https://x&code=b": "/oidc/\r\nLocation: https://x/b/",
		"error=access_denied&state=x":              "/oidc-error/access_denied",
		"error=Call+0800+12345":                    "/oidc-error/invalid",
		"":                                         "/oidc///",
	} {
		if got := strings.Join(w.callback(query), "/"); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

// TestOpenIDOffer looks at what a page may begin.
func TestOpenIDOffer(t *testing.T) {
	w := newTeam(t, nil)
	serve := func(s *Sessions, r *http.Request) (int, string) {
		rec := httptest.NewRecorder()
		s.ServeOpenID(rec, r)
		return rec.Code, rec.Body.String()
	}
	if code, text := serve(w.Sessions, request("GET", "")); code != http.StatusOK || !strings.Contains(text, w.provider.URL) || strings.Contains(text, `"url"`) {
		t.Errorf("offer: %d %s", code, text)
	}
	if code, text := serve(newDesk(t, nil).Sessions, request("GET", "")); code != http.StatusOK || text != `{"issuer":""}`+"\n" {
		t.Errorf("no provider: %d %s", code, text)
	}
	for name, headers := range map[string][]string{
		"another page": {"Origin", "https://evil.example"}, "no origin": {"Origin", ""},
		"another name than the public one": {"Host", "localhost:7070", "Origin", "http://localhost:7070"},
	} {
		if code, text := serve(w.Sessions, request("POST", "", headers...)); code != http.StatusForbidden {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
	// What a provider says of itself is checked before a browser is sent there.
	for name, m := range map[string]map[string]any{
		"another issuer": {"issuer": "https://evil.example"}, "script": {"authorization_endpoint": "javascript:alert(1)"}, "no encryption": {"token_endpoint": "http://id.example.org/token"},
	} {
		other := newTeam(t, nil)
		other.provider.Metadata(m)
		if code, text := serve(other.Sessions, request("POST", "")); code == http.StatusOK {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
}

// TestOpenIDSecret has the provider refuse the client. The page says what to set, and not the secret.
func TestOpenIDSecret(t *testing.T) {
	for name, secret := range map[string]func(context.Context, string) (string, error){
		"wrong":   func(context.Context, string) (string, error) { return "wrong one", nil },
		"missing": func(context.Context, string) (string, error) { return "", errors.New("there is no secret oidc") },
		"none":    nil,
	} {
		w := newTeam(t, func(cfg *openid.Config) { cfg.Secret = secret })
		code, text := w.finish(w.visit(w.begin()))
		if code == http.StatusOK || strings.Contains(text, "wrong one") || name == "wrong" && !strings.Contains(text, "invalid_client") {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
}
