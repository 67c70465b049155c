package policy

import (
	"net/netip"
	"strings"
	"testing"

	"hortus.dev/api"
)

func TestFromE2B(t *testing.T) {
	yes, no := true, false
	all := []string{"0.0.0.0/0"}
	const denied = "deny: " + ReasonDenied
	const none = "deny: " + ReasonNoRule
	for _, c := range []struct {
		name        string
		internet    *bool
		allow, deny []string
		host        string
		port        int
		want        string
	}{
		{"default", nil, nil, nil, "example.org", 443, "allow"},
		{"default, other port", nil, nil, nil, "example.org", 22, "allow tcp"},
		{"default, address", nil, nil, nil, "192.0.2.1", 443, "allow tcp"},
		{"default, no private addresses", nil, nil, nil, "10.0.0.1", 443, "allow tcp"}, // without "private": dial refuses it
		{"on", &yes, nil, nil, "example.org", 443, "allow"},
		{"off", &no, nil, nil, "example.org", 443, none},
		{"off, address", &no, nil, nil, "192.0.2.1", 443, none},
		{"deny all", nil, nil, all, "example.org", 443, none},
		{"deny all wins over on", &yes, nil, all, "example.org", 443, none},
		{"deny all, address", nil, nil, all, "192.0.2.1", 443, denied},
		{"deny one", nil, nil, []string{"192.0.2.1"}, "192.0.2.1", 443, denied},
		{"deny one, another", nil, nil, []string{"192.0.2.1"}, "192.0.2.2", 443, "allow tcp"},
		{"deny a range that is not masked", nil, nil, []string{"192.0.2.9/24"}, "192.0.2.2", 443, denied},
		{"allow wins", nil, []string{"192.0.2.1"}, []string{"192.0.2.0/24"}, "192.0.2.1", 443, "allow tcp"},
		{"allow does not restrict", nil, []string{"192.0.2.1"}, nil, "example.org", 443, "allow"},
		{"allow an address", nil, []string{"192.0.2.1"}, all, "192.0.2.1", 5432, "allow tcp"},
		{"allow an address, another", nil, []string{"192.0.2.1"}, all, "192.0.2.2", 5432, denied},
		{"allow a range with internet off", &no, []string{"192.0.2.0/24"}, nil, "192.0.2.2", 5432, "allow tcp"},
		{"allow a name", nil, []string{"example.org"}, all, "example.org", 443, "allow"},
		{"allow a name with internet off", &no, []string{"example.org"}, nil, "example.org", 80, "allow"},
		{"allow a name, other port", nil, []string{"example.org"}, all, "example.org", 22, none},
		{"allow a name, below", nil, []string{"example.org"}, all, "www.example.org", 443, none},
		{"allow a wildcard", nil, []string{"*.Example.org"}, all, "www.example.org", 443, "allow"},
		{"allow a wildcard, itself", nil, []string{"*.example.org"}, all, "example.org", 443, none},
		{"allow every name", nil, []string{"*"}, all, "example.org", 443, "allow"},
		{"allow every name, other port", nil, []string{"*"}, all, "example.org", 22, none},
		{"allow all wins", &no, all, all, "example.org", 22, "allow tcp"},
		{"allow all wins, address", nil, all, []string{"192.0.2.1"}, "192.0.2.1", 22, "allow tcp"},
		{"mixed", nil, []string{"192.0.2.0/24", "example.org", "2001:db8::/32"}, all, "2001:db8::1", 443, "allow tcp"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := FromE2B(c.internet, c.allow, c.deny)
			if err != nil {
				t.Fatal(err)
			}
			compiled, err := Compile(p, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := brief(compiled.Connect(target(t, c.host, c.port))); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			for _, r := range p.Rules {
				if r.Private {
					t.Errorf("private addresses are allowed: %+v", r)
				}
			}
		})
	}
}

// An address that is denied must not be reached by a name for it.
func TestFromE2BResolved(t *testing.T) {
	addr := netip.MustParseAddr("192.0.2.1")
	for _, c := range []struct {
		allow, deny []string
		want        bool
	}{
		{nil, []string{"192.0.2.0/24"}, false},
		{nil, []string{"0.0.0.0/1", "128.0.0.0/1"}, false},
		{nil, []string{"198.51.100.0/24"}, true},
		{[]string{"192.0.2.1"}, []string{"192.0.2.0/24"}, true},
		{[]string{"example.org"}, []string{"0.0.0.0/0"}, true},
		{[]string{"0.0.0.0/0"}, []string{"192.0.2.0/24"}, true},
	} {
		p, err := FromE2B(nil, c.allow, c.deny)
		if err != nil {
			t.Fatal(err)
		}
		compiled, err := Compile(p, nil)
		if err != nil {
			t.Fatal(err)
		}
		to := Target{"example.org", 443}
		if got := compiled.Resolved(to, addr); got.Allow != c.want {
			t.Errorf("allow %q, deny %q: %s", c.allow, c.deny, brief(got))
		}
		// The control: before the name is resolved, the connection is allowed.
		if got := compiled.Connect(to); !got.Allow {
			t.Errorf("allow %q, deny %q: %s", c.allow, c.deny, brief(got))
		}
	}
}

func TestFromE2BRefuses(t *testing.T) {
	for _, c := range []struct {
		allow, deny []string
		want        string
	}{
		{nil, []string{"example.org"}, "denyOut"},
		{nil, []string{"*.example.org"}, "denyOut"},
		{nil, []string{"*"}, "denyOut"},
		{nil, []string{"127.1"}, "denyOut"},
		{nil, []string{""}, "denyOut"},
		{[]string{"example.org"}, nil, "does not deny the rest"},
		{[]string{"example.org"}, []string{"10.0.0.0/8"}, "does not deny the rest"},
		{[]string{"a*.example.org"}, []string{"0.0.0.0/0"}, "allowOut"},
		{[]string{"https://example.org"}, []string{"0.0.0.0/0"}, "allowOut"},
		{[]string{"example.org:443"}, []string{"0.0.0.0/0"}, "allowOut"},
		{[]string{"0x7f.1"}, []string{"0.0.0.0/0"}, "allowOut"},
		{make([]string, maxE2B), []string{"0.0.0.0/0"}, "entries"},
	} {
		if p, err := FromE2B(nil, c.allow, c.deny); api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), c.want) {
			t.Errorf("allow %.60q, deny %q: %+v, %v", c.allow, c.deny, p, err)
		}
	}
}

func FuzzFromE2B(f *testing.F) {
	f.Add("1.2.3.4,*.example.org", "0.0.0.0/0,10.0.0.1/8", int8(0))
	f.Fuzz(func(t *testing.T, allow, deny string, internet int8) {
		var on *bool
		if internet != 0 {
			on = new(bool)
			*on = internet > 0
		}
		p, err := FromE2B(on, strings.Split(allow, ","), strings.Split(deny, ","))
		if err != nil {
			return
		}
		if _, err := Compile(p, nil); err != nil {
			t.Fatalf("%q, %q: %v", allow, deny, err)
		}
	})
}
