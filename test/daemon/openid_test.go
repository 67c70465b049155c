package daemon

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/server/openid"
	"hortus.dev/internal/server/signin"
	"hortus.dev/test/openidserver"
	"hortus.dev/test/world"
)

// signInWith signs in a browser at the daemon's provider. The error of a refused sign-in is that of the daemon.
func signInWith(t *testing.T, at string) (browser, signin.Session, *http.Response) {
	t.Helper()
	b := browser{t: t, url: at}
	resp := b.send("POST", signin.OpenIDPath, "")
	offer, cookie := world.Into[signin.Offer](t, resp, http.StatusOK), resp.Cookies()[0]
	req := world.Must(http.NewRequestWithContext(t.Context(), "GET", offer.URL, nil))(t)
	there := world.Must(http.DefaultTransport.RoundTrip(req))(t)
	there.Body.Close()
	back := world.Must(there.Location())(t)
	to := b.send("GET", back.RequestURI(), "", "Origin", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate")
	if to.StatusCode != http.StatusSeeOther || !strings.HasPrefix(to.Header.Get("Location"), "/#/oidc/") {
		t.Fatalf("callback: %d %v", to.StatusCode, to.Header)
	}
	q := back.Query()
	body := world.Must(json.Marshal(map[string]any{"oidc": map[string]string{"state": q.Get("state"), "code": q.Get("code"), "iss": q.Get("iss"), "page": offer.Page}}))(t)
	resp = b.send("POST", signin.Path, string(body), "Cookie", cookie.Name+"="+cookie.Value)
	if resp.StatusCode != http.StatusOK {
		return b, signin.Session{}, resp
	}
	s := world.Into[signin.Session](t, resp, http.StatusOK)
	for _, c := range resp.Cookies() {
		if c.Value != "" {
			b.headers = []string{"Cookie", c.Name + "=" + c.Value, signin.Header, s.Page}
		}
	}
	return b, s, resp
}

// TestOpenID signs in people of a team. They have the rights of their account and role, and lose them with their group, or with their key.
func TestOpenID(t *testing.T) {
	t.Parallel()
	w := world.Open(t, world.Config{})
	const secret = "secret of the client"
	p := openidserver.New(t, openidserver.Config{ClientID: "hortus", Secret: secret, Redirect: w.URL + openid.CallbackPath})
	if _, err := w.Client.Secrets.Set(t.Context(), "oidc", secrets.Set{Value: secret}); err != nil {
		t.Fatal(err)
	}
	w.Config.Front.Listen, w.Config.Front.PublicURL = strings.TrimPrefix(w.URL, "http://"), w.URL
	w.Config.OpenID = daemon.OpenID{Issuer: p.URL, ClientID: "hortus", Secret: "oidc", Scopes: []string{"email"}, Claim: "groups", Rules: []string{"operators=default:admin", "developers=team"}}
	w.Restart()
	is := func(sub string, groups ...string) {
		p.Claims(map[string]any{"sub": sub, "email": sub + "@example.org", "email_verified": true, "groups": groups})
	}
	is("ada", "developers")
	ada, session, _ := signInWith(t, w.URL)
	if session.Account != "team" || session.Role != api.RoleUser || ada.status("GET", "/v1/tasks", "") != http.StatusOK || ada.status("GET", "/v1/keys", "") != http.StatusForbidden {
		t.Errorf("ada: %+v", session)
	}
	is("olga", "operators")
	olga, session, _ := signInWith(t, w.URL)
	if session.Account != "default" || session.Role != api.RoleAdmin || olga.status("GET", "/v1/keys", "") != http.StatusOK {
		t.Errorf("olga: %+v", session)
	}
	keys := world.Must(w.Client.Keys.List(t.Context(), false))(t)
	if len(keys) != 2 || keys[0].Person == nil || keys[0].Name != "olga@example.org" || keys[1].Person.Subject != "ada" {
		t.Errorf("keys: %+v", keys)
	}
	// A second browser of the same person has the same key.
	is("ada", "developers")
	home, _, _ := signInWith(t, w.URL)
	if now := world.Must(w.Client.Keys.List(t.Context(), false))(t); len(now) != 2 {
		t.Errorf("%d keys", len(now))
	}
	w.Restart()
	if got := home.status("GET", "/v1/tasks", ""); got != http.StatusOK {
		t.Errorf("after a restart: %d", got)
	}
	is("ada")
	if _, _, resp := signInWith(t, w.URL); resp.StatusCode != http.StatusForbidden {
		t.Errorf("a group that is gone: %d", resp.StatusCode)
	}
	if a, h, o := ada.status("GET", "/v1/tasks", ""), home.status("GET", "/v1/tasks", ""), olga.status("GET", "/v1/tasks", ""); a != http.StatusUnauthorized || h != http.StatusUnauthorized || o != http.StatusOK {
		t.Errorf("after it: ada %d and %d, olga %d", a, h, o)
	}
	if _, err := w.Client.Keys.Revoke(t.Context(), string(session.Key)); err != nil {
		t.Fatal(err)
	}
	if got := olga.status("GET", "/v1/tasks", ""); got != http.StatusUnauthorized {
		t.Errorf("olga, whose key was revoked: %d", got)
	}
}

// TestOpenIDSettings refuses to start with settings that cannot work.
func TestOpenIDSettings(t *testing.T) {
	t.Parallel()
	const issuer = "https://id.example.org"
	for name, c := range map[string]struct {
		o    daemon.OpenID
		says string
	}{
		"no public URL":   {daemon.OpenID{Issuer: issuer, ClientID: "x", Claim: "groups", Rules: []string{"a=b"}}, "serve.public-url"},
		"no rule":         {daemon.OpenID{Issuer: issuer, ClientID: "x", Claim: "groups", Rules: []string{"a"}}, "oidc.rules"},
		"role of nothing": {daemon.OpenID{Issuer: issuer, ClientID: "x", Claim: "groups", Rules: []string{"a=b:root"}}, "unknown role"},
		"no account":      {daemon.OpenID{Issuer: issuer, ClientID: "x", Claim: "groups", Rules: []string{"a=B"}}, "account"},
	} {
		if err := world.Refuses(t, world.Config{Config: daemon.Config{OpenID: c.o}}); err == nil || !strings.Contains(err.Error()+api.HintOf(err), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
