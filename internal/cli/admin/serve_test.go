package admin

import "testing"

// TestAddresses: a daemon that listens at all addresses does not say that it is reached at the one of this machine alone.
func TestAddresses(t *testing.T) {
	for _, c := range []struct{ listen, url, want string }{
		{"", "http://127.0.0.1:7070", "http://127.0.0.1:7070"},
		{"127.0.0.1:7070", "http://127.0.0.1:7070", "http://127.0.0.1:7070"},
		{"host.example.org:7070", "http://10.0.0.1:7070", "http://10.0.0.1:7070"},
		{":7070", "http://127.0.0.1:7070", "http://127.0.0.1:7070, and at port 7070 of every address of this machine or pod"},
		{"0.0.0.0:0", "http://127.0.0.1:4711", "http://127.0.0.1:4711, and at port 4711 of every address of this machine or pod"},
		{"[::]:443", "https://a.example.org", "https://a.example.org, and at port 443 of every address of this machine or pod"},
	} {
		if got := addresses(c.listen, c.url); got != c.want {
			t.Errorf("%s, %s: %s; want %s", c.listen, c.url, got, c.want)
		}
	}
}
