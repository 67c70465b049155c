package openid

import (
	"strings"
	"testing"

	"hortus.dev/api"
)

// TestNew refuses settings that cannot work, or that let in everybody.
func TestNew(t *testing.T) {
	good := func() Config {
		return Config{Issuer: "https://id.example.org/realms/team", ClientID: "hortus", PublicURL: "https://hortus.example.org/", Claim: "groups", Rules: []Rule{{Value: "a", Account: "b", Role: api.RoleUser}}}
	}
	for name, c := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"good":                  {func(*Config) {}, ""},
		"a provider here":       {func(c *Config) { c.Issuer = "http://127.0.0.1:8080" }, ""},
		"everybody of a domain": {func(c *Config) { c.Rules[0].Value, c.Domains = "*", []string{"example.org"} }, ""},
		"everybody":             {func(c *Config) { c.Rules[0].Value = "*" }, "oidc.domains"},
		"no rules":              {func(c *Config) { c.Rules = nil }, "oidc.rules"},
		"no client":             {func(c *Config) { c.ClientID = "" }, "oidc.client-id"},
		"no claim":              {func(c *Config) { c.Claim = "" }, "oidc.claim"},
		"no public URL":         {func(c *Config) { c.PublicURL = "" }, "serve.public-url"},
		"a path":                {func(c *Config) { c.PublicURL += "x" }, "serve.public-url"},
		"not encrypted":         {func(c *Config) { c.Issuer = "http://id.example.org" }, "https://"},
		"a name like this host": {func(c *Config) { c.Issuer = "http://localhost.evil.example" }, "https://"},
		"a password":            {func(c *Config) { c.Issuer = "https://a:b@id.example.org" }, "https://"},
	} {
		cfg := good()
		c.change(&cfg)
		_, err := New(cfg)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error()+api.HintOf(err), c.says)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseRule(t *testing.T) {
	for text, want := range map[string]string{
		"team=team": "team=team:user", "/hortus/admins = default:admin": "/hortus/admins=default:admin", "cn=a,dc=b=team": "cn=a,dc=b=team:user", "*=all:user": "*=all:user",
		"team": "", "=team": "", "": "",
	} {
		r, err := ParseRule(text)
		if (err != nil) != (want == "") || err == nil && r.String() != want {
			t.Errorf("%q: %v, %v", text, r, err)
		}
	}
}

// TestSeal opens what was sealed with the same secret, unchanged.
func TestSeal(t *testing.T) {
	one, err := newSealer([]byte("one"))
	if err != nil {
		t.Fatal(err)
	}
	cookie, err := one.seal(attempt{State: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if a, ok := one.open(cookie); !ok || a.State != "s" {
		t.Errorf("%+v %v", a, ok)
	}
	again, err := newSealer([]byte("one")) // another node's
	if err != nil {
		t.Fatal(err)
	}
	if a, ok := again.open(cookie); !ok || a.State != "s" {
		t.Errorf("at another node: %+v %v", a, ok)
	}
	other, err := newSealer([]byte("other"))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := other.open(cookie); ok {
		t.Error("another secret opens it")
	}
	for _, text := range []string{"", cookie[1:], cookie + "A", strings.Repeat("A", maxCookie+1)} {
		if _, ok := one.open(text); ok {
			t.Errorf("%.40q opens", text)
		}
	}
}
