package preview

import (
	"net/http"
	"testing"

	"hortus.dev/api"
)

func TestAddress(t *testing.T) {
	for _, c := range []struct{ domain, daemon, scheme, host string }{
		{"", "", "", ""},
		{"", "https://a.example:7070", "", ""},
		{"", "http://127.0.0.1:7070", "http", "localhost:7070"},
		{"box.example", "http://127.0.0.1:7070", "https", "box.example"}, // behind a proxy with TLS
		{"box.example:8443", "https://box.example:8443", "https", "box.example:8443"},
		{"sbx.localhost:7070", "http://127.0.0.1:7070", "http", "sbx.localhost:7070"},
		{"notlocalhost", "http://127.0.0.1:7070", "https", "notlocalhost"},
		{"box.example", "", "", ""},
	} {
		scheme, host, err := Address(c.domain, c.daemon)
		if scheme != c.scheme || host != c.host || (err == nil) != (c.host != "") || err != nil && api.HintOf(err) == "" {
			t.Errorf("%+v: %s, %s, %v", c, scheme, host, err)
		}
	}
}

// TestTicketsOfAnAccount: tickets that nobody uses fill nothing, and those of one account push out no other's.
func TestTicketsOfAnAccount(t *testing.T) {
	p := New(Config{Scheme: "https", Domain: "box.example"})
	of := func(account string) api.Sandbox {
		return api.Sandbox{ID: api.NewSandboxID(), Account: account, PrivateTraffic: true}
	}
	first := of("ada")
	if _, err := p.Link(first, 1); err != nil {
		t.Fatal(err)
	}
	secret := p.tickets["ada"][0].secret
	for range 2 * maxTickets {
		if _, err := p.Link(of("bob"), 1); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(p.tickets["bob"]); n != maxTickets {
		t.Errorf("one account has %d tickets", n)
	}
	if !p.take(first, 1, secret) || len(p.tickets) != 1 {
		t.Error("another account's ticket is lost")
	}
}

func TestStrip(t *testing.T) {
	for in, want := range map[string]string{
		"a=b": "a=b", "hortus-preview=x": "", "__Host-hortus-preview=x; a=b": "a=b", "a=b; __Host-hortus-preview=x": "a=b", "a=b; hortus-preview =x;c=d": "a=b;c=d", "hortus-preview": "", "my-hortus-preview=1": "my-hortus-preview=1",
	} {
		h := http.Header{"Cookie": {in}}
		if Strip(h); h.Get("Cookie") != want {
			t.Errorf("%q: %q", in, h.Get("Cookie"))
		}
	}
}
