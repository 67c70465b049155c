package policy

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"hortus.dev/api"
)

// compiled compiles specs, and a ceiling of specs if there is one.
func compiled(t testing.TB, specs []string, ceiling ...string) *Policy {
	t.Helper()
	p, err := ParseAll(specs)
	if err != nil {
		t.Fatal(err)
	}
	var limit *api.EgressPolicy
	if ceiling != nil {
		c, err := ParseAll(ceiling)
		if err != nil {
			t.Fatal(err)
		}
		limit = &c
	}
	c, err := Compile(p, limit)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func target(t testing.TB, host string, port int) Target {
	t.Helper()
	to, err := NewTarget(host, port)
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// brief writes what matters of a verdict.
func brief(v Verdict) string {
	s := "deny"
	switch {
	case v.Allow:
		s = "allow"
		if v.Class != api.EgressWeb {
			s += " " + string(v.Class)
		}
	case v.Ask:
		s = "ask"
	}
	if v.Inspect {
		s += " inspect"
	}
	if v.Private {
		s += " private"
	}
	if v.Reason != "" {
		s += ": " + v.Reason
	}
	return s
}

func TestConnect(t *testing.T) {
	const none = "deny: " + ReasonNoRule
	const denied = "deny: " + ReasonDenied
	const ceiling = "deny: " + ReasonCeiling
	for _, c := range []struct {
		name    string
		specs   []string
		ceiling []string
		host    string
		port    int
		want    string
	}{
		{"nothing", nil, nil, "example.org", 443, none},
		{"name", []string{"example.org"}, nil, "example.org", 443, "allow"},
		{"name in clear", []string{"example.org"}, nil, "example.org", 80, "allow"},
		{"other port", []string{"example.org"}, nil, "example.org", 22, none},
		{"case and final dot", []string{"Example.ORG."}, nil, "eXample.org.", 443, "allow"},
		{"name below", []string{"example.org"}, nil, "www.example.org", 443, none},
		{"name that ends alike", []string{"*.example.org"}, nil, "badexample.org", 443, none},
		{"wildcard", []string{"*.example.org"}, nil, "a.b.example.org", 443, "allow"},
		{"wildcard is not its name", []string{"*.example.org"}, nil, "example.org", 443, none},
		{"wildcard of a label", []string{"*.com"}, nil, "example.com", 443, "allow"},
		{"first match denies", []string{"!a.example.org", "*.example.org"}, nil, "a.example.org", 443, denied},
		{"first match allows", []string{"*.example.org", "!a.example.org"}, nil, "a.example.org", 443, "allow"},
		{"a denied port", []string{"!example.org:80", "example.org"}, nil, "example.org", 443, "allow"},
		{"deny has every port", []string{"!example.org", "all"}, nil, "example.org", 8443, denied},
		{"any", []string{"*"}, nil, "example.org", 22, "allow"},
		{"all, web", []string{"all"}, nil, "example.org", 443, "allow"},
		{"all, other", []string{"all"}, nil, "example.org", 22, "allow tcp"},
		{"all, address", []string{"all"}, nil, "192.0.2.1", 443, "allow tcp"},
		{"tcp", []string{"tcp://db.example.org:5432"}, nil, "db.example.org", 5432, "allow tcp"},
		{"passthrough", []string{"passthrough://example.org"}, nil, "example.org", 443, "allow passthrough"},
		{"address", []string{"192.0.2.1"}, nil, "192.0.2.1", 9, "allow tcp"},
		{"range", []string{"192.0.2.0/24:22"}, nil, "192.0.2.77", 22, "allow tcp"},
		{"range, other port", []string{"192.0.2.0/24:22"}, nil, "192.0.2.77", 23, none},
		{"outside of a range", []string{"192.0.2.0/24"}, nil, "192.0.3.1", 22, none},
		{"IPv4 in IPv6", []string{"192.0.2.0/24"}, nil, "::ffff:192.0.2.1", 22, "allow tcp"},
		{"IPv6", []string{"[2001:db8::/32]:443"}, nil, "2001:DB8:0::1", 443, "allow tcp"},
		{"every IPv4 address is not IPv6", []string{"0.0.0.0/0"}, nil, "2001:db8::1", 443, none},
		{"every address is no name", []string{"0.0.0.0/0", "::/0"}, nil, "example.org", 443, none},
		{"every name is no address", []string{"*.com", "*.org"}, nil, "192.0.2.1", 443, none},
		{"private", []string{"mirror.example.org,private"}, nil, "mirror.example.org", 443, "allow private"},
		{"private range", []string{"10.0.0.0/8:22,private"}, nil, "10.1.2.3", 22, "allow tcp private"},
		{"the first rule's private", []string{"mirror.example.org", "mirror.example.org,private"}, nil, "mirror.example.org", 443, "allow"},

		{"conditions", []string{"GET example.org/a"}, nil, "example.org", 443, "allow inspect"},
		{"conditions, then the rest", []string{"GET example.org/a", "!example.org"}, nil, "example.org", 443, "allow inspect"},
		{"conditions of an address", []string{"GET 192.0.2.1:80"}, nil, "192.0.2.1", 80, "allow inspect"},
		{"every path of an address", []string{"192.0.2.1:80/**"}, nil, "192.0.2.1", 80, "allow"},
		{"denied condition", []string{"!POST example.org", "example.org"}, nil, "example.org", 443, "allow inspect"},
		{"denied condition over passthrough", []string{"!example.org/x", "passthrough://example.org"}, nil, "example.org", 443, "allow inspect"},
		{"denied condition over tcp", []string{"!192.0.2.1:80/x", "192.0.2.1"}, nil, "192.0.2.1", 80, "allow inspect"},
		{"denied condition of another port", []string{"!192.0.2.1:80/x", "192.0.2.1"}, nil, "192.0.2.1", 81, "allow tcp"},
		{"denied condition alone", []string{"!example.org/x"}, nil, "example.org", 443, none},

		{"ask", []string{"ask"}, nil, "example.org", 22, "ask: " + ReasonNoRule},
		{"ask, but denied", []string{"!example.org", "ask"}, nil, "example.org", 22, denied},
		{"ask after a condition", []string{"!example.org/x", "ask"}, nil, "example.org", 443, "ask inspect: " + ReasonNoRule},

		{"ceiling allows", []string{"example.org"}, []string{"*.org"}, "example.org", 443, "allow"},
		{"ceiling without a rule", []string{"example.org"}, []string{"example.com"}, "example.org", 443, ceiling},
		{"ceiling denies", []string{"example.org"}, []string{"!example.org", "all"}, "example.org", 443, ceiling},
		{"ceiling does not grant", []string{"example.com"}, []string{"all"}, "example.org", 443, none},
		{"ceiling's ask", []string{"example.org"}, []string{"ask"}, "example.org", 443, ceiling},
		{"ask within the ceiling", []string{"ask"}, []string{"*.org"}, "example.org", 443, "ask: " + ReasonNoRule},
		{"ask above the ceiling", []string{"ask"}, []string{"*.com"}, "example.org", 443, ceiling},
		{"ceiling's class", []string{"tcp://example.org:443"}, []string{"example.org"}, "example.org", 443, "allow"},
		{"ceiling's passthrough", []string{"tcp://example.org:443"}, []string{"passthrough://*"}, "example.org", 443, "allow passthrough"},
		{"ceiling without a class", []string{"example.org"}, []string{"tcp://*"}, "example.org", 443, "allow"},
		{"ceiling's conditions", []string{"passthrough://example.org"}, []string{"GET example.org"}, "example.org", 443, "allow inspect"},
		{"ceiling without private", []string{"example.org,private"}, []string{"tcp://*"}, "example.org", 443, "allow"},
		{"ceiling with private", []string{"example.org,private"}, []string{"example.org,private"}, "example.org", 443, "allow private"},
		{"only the ceiling has private", []string{"example.org"}, []string{"example.org,private"}, "example.org", 443, "allow"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := compiled(t, c.specs, c.ceiling...)
			to := target(t, c.host, c.port)
			v := p.Connect(to)
			if got := brief(v); got != c.want {
				t.Errorf("Connect: %s, want %s (rule %q)", got, c.want, v.Rule)
			}
			// What a connection to a port is allowed must not be hidden by DNS.
			if addr, err := netip.ParseAddr(to.Host); err != nil {
				n := p.Name(to.Host)
				if v.Allow && !n.Allow || v.Ask && !n.Ask && !n.Allow {
					t.Errorf("Connect: %s, Name: %s", brief(v), brief(n))
				}
			} else if p.Name(addr.String()).Allow {
				t.Error("Name allows an address")
			}
		})
	}
}

func TestName(t *testing.T) {
	for _, c := range []struct {
		name    string
		specs   []string
		ceiling []string
		want    string
	}{
		{"no rule", []string{"example.com"}, nil, "deny: " + ReasonNoRule},
		{"a port", []string{"tcp://example.org:22"}, nil, "allow"},
		{"private", []string{"example.org,private"}, nil, "allow"},
		{"conditions", []string{"GET example.org/x"}, nil, "allow"},
		{"denied", []string{"!example.org", "*"}, nil, "deny: " + ReasonDenied},
		{"one port is denied", []string{"!example.org:22", "*"}, nil, "allow"},
		{"each allowed port is denied", []string{"!example.org:1-100,400-500", "example.org"}, nil, "deny: " + ReasonDenied},
		{"denied conditions", []string{"!example.org/x", "example.org"}, nil, "allow"},
		{"ask", []string{"ask"}, nil, "ask: " + ReasonNoRule},
		{"ask about the other ports", []string{"!example.org:443", "ask"}, nil, "ask: " + ReasonNoRule},
		{"ask about no port", []string{"!example.org", "ask"}, nil, "deny: " + ReasonDenied},
		{"ceiling", []string{"example.org"}, []string{"*:443"}, "allow"},
		{"ceiling of another port", []string{"example.org"}, []string{"tcp://*:22"}, "deny: " + ReasonCeiling},
		{"ceiling, second rule", []string{"example.org", "example.org:22"}, []string{"tcp://*:22"}, "allow"},
		{"ceiling and ask", []string{"!example.org:22", "ask"}, []string{"*:22"}, "deny: " + ReasonDenied},
		{"ceiling of another port and ask", []string{"!example.org:22", "ask"}, []string{"*:22-23"}, "ask: " + ReasonNoRule},
		{"ceiling of nothing and ask", []string{"ask"}, []string{"none"}, "deny: " + ReasonCeiling},
		{"ceiling of nothing", []string{"*"}, []string{"none"}, "deny: " + ReasonCeiling},
		{"ceiling denies a port first", []string{"example.org"}, []string{"!*:443", "*:443"}, "deny: " + ReasonCeiling},
		{"conditions of the ceiling", []string{"example.org"}, []string{"GET *"}, "allow"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := compiled(t, c.specs, c.ceiling...)
			got := p.Name("example.org")
			if brief(got) != c.want {
				t.Errorf("Name: %s, want %s (rule %q)", brief(got), c.want, got.Rule)
			}
			// The definition, port by port.
			allow, ask := false, false
			for port := 1; port <= maxPort; port++ {
				v := p.Connect(Target{"example.org", port})
				allow, ask = allow || v.Allow, ask || v.Ask
			}
			if got.Allow != allow || got.Ask != (ask && !allow) {
				t.Errorf("Name: %s; a port is allowed: %v, asked for: %v", brief(got), allow, ask)
			}
		})
	}
	if v := compiled(t, []string{"all"}).Name("Example.org"); v.Allow {
		t.Error("a name that was not normalized is allowed")
	}
}

// A caller that does not normalize a host must not reach what a rule denies.
func TestTargetNotNormalized(t *testing.T) {
	p := compiled(t, []string{"!example.org", "!127.0.0.1", "all"})
	for _, host := range []string{"EXAMPLE.org", "example.org.", "exam ple.org", "", ".", "::ffff:127.0.0.1", "127.1", "2130706433", "0x7f.1", "017700000001", "fe80::1%eth0", "[::1]", "0:0:0:0:0:ffff:7f00:1"} {
		if v := p.Connect(Target{host, 443}); v.Allow || v.Reason != ReasonInvalid {
			t.Errorf("%q: %s", host, brief(v))
		}
		if v := p.Request(Target{host, 443}, "GET", "/"); v.Allow {
			t.Errorf("request to %q: %s", host, brief(v))
		}
	}
	for _, port := range []int{0, -1, maxPort + 1, 1 << 20} {
		if v := p.Connect(Target{"example.com", port}); v.Allow {
			t.Errorf("port %d: %s", port, brief(v))
		}
		if _, err := NewTarget("example.com", port); api.KindOf(err) != api.KindInvalid {
			t.Errorf("port %d: %v", port, err)
		}
	}
	// The control: the same hosts, normalized, are denied by the rule or allowed.
	if v := p.Connect(target(t, "EXAMPLE.org.", 443)); v.Reason != ReasonDenied {
		t.Error(brief(v))
	}
	if v := p.Connect(target(t, "::ffff:127.0.0.1", 443)); v.Reason != ReasonDenied {
		t.Error(brief(v))
	}
}

func TestResolved(t *testing.T) {
	addr := netip.MustParseAddr("192.0.2.1")
	for _, c := range []struct {
		specs   []string
		ceiling []string
		want    string
	}{
		{[]string{"*"}, nil, "allow"},
		{[]string{"!192.0.2.0/24", "*"}, nil, "deny: " + ReasonDenied},
		{[]string{"!192.0.2.0/24:80", "*"}, nil, "allow"},
		{[]string{"192.0.2.1", "!192.0.2.0/24", "*"}, nil, "allow"},
		{[]string{"example.org", "!192.0.2.0/24"}, nil, "allow"},
		{[]string{"!192.0.2.0/24", "ask"}, nil, "deny: " + ReasonDenied},
		{[]string{"192.0.2.1"}, nil, "deny: " + ReasonNoRule},
		{[]string{"*"}, []string{"!192.0.2.1", "*"}, "deny: " + ReasonCeiling},
	} {
		p := compiled(t, c.specs, c.ceiling...)
		if got := brief(p.Resolved(Target{"example.org", 443}, addr)); got != c.want {
			t.Errorf("%q under %q: %s, want %s", c.specs, c.ceiling, got, c.want)
		}
		mapped := netip.AddrFrom16(addr.As16())
		if got := brief(p.Resolved(Target{"example.org", 443}, mapped)); got != c.want {
			t.Errorf("%q, mapped: %s, want %s", c.specs, got, c.want)
		}
		// A policy that decides by the address says so, also if not about this one.
		if p.Connect(Target{"example.org", 443}).Allow && strings.HasPrefix(c.want, "deny") && !p.ByAddress() {
			t.Errorf("%q under %q does not say that addresses matter", c.specs, c.ceiling)
		}
	}
}

func TestByAddress(t *testing.T) {
	for spec, want := range map[string]bool{"example.org": false, "192.0.2.0/24:22": false, "!example.org": false, "!192.0.2.0/24": true} {
		if got := compiled(t, []string{spec, "*"}).ByAddress(); got != want {
			t.Errorf("%s: %v", spec, got)
		}
		if got := compiled(t, []string{"*"}, spec, "*").ByAddress(); got != want {
			t.Errorf("a ceiling with %s: %v", spec, got)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	rule := func(change func(*api.EgressRule)) api.EgressPolicy {
		r := api.EgressRule{Action: api.EgressAllow, Host: "example.org"}
		change(&r)
		return api.EgressPolicy{Rules: []api.EgressRule{r}}
	}
	long := strings.Repeat("a", maxPattern-1)
	for _, c := range []struct {
		what string
		p    api.EgressPolicy
		want string
	}{
		{"action", rule(func(r *api.EgressRule) { r.Action = "" }), "action"},
		{"other action", rule(func(r *api.EgressRule) { r.Action = "Allow" }), "action"},
		{"class", rule(func(r *api.EgressRule) { r.Class = "udp" }), "class"},
		{"no host", rule(func(r *api.EgressRule) { r.Host = "" }), "no host"},
		{"half a wildcard", rule(func(r *api.EgressRule) { r.Host = "a*.example.org" }), "leftmost label"},
		{"inner wildcard", rule(func(r *api.EgressRule) { r.Host = "a.*.example.org" }), "leftmost label"},
		{"two wildcards", rule(func(r *api.EgressRule) { r.Host = "*.*.org" }), "leftmost label"},
		{"wildcard of nothing", rule(func(r *api.EgressRule) { r.Host = "*." }), "wildcard"},
		{"wildcard of an address", rule(func(r *api.EgressRule) { r.Host = "*.127.0.0.1" }), "wildcard"},
		{"odd address", rule(func(r *api.EgressRule) { r.Host = "127.1" }), "number"},
		{"range with host bits", rule(func(r *api.EgressRule) { r.Host = "10.1.2.3/8" }), "begins with"},
		{"mapped range", rule(func(r *api.EgressRule) { r.Host = "::ffff:10.0.0.0/104" }), "IPv4"},
		{"zone", rule(func(r *api.EgressRule) { r.Host = "fe80::1%eth0" }), "zone"},
		{"not a range", rule(func(r *api.EgressRule) { r.Host = "10.0.0.0/33" }), "range"},
		{"URL", rule(func(r *api.EgressRule) { r.Host = "https://example.org" }), "range"},
		{"port 0", rule(func(r *api.EgressRule) { r.Ports = "0" }), "port"},
		{"port 65536", rule(func(r *api.EgressRule) { r.Ports = "65536" }), "port"},
		{"reverse range", rule(func(r *api.EgressRule) { r.Ports = "90-80" }), "port"},
		{"open range", rule(func(r *api.EgressRule) { r.Ports = "80-" }), "port"},
		{"sign", rule(func(r *api.EgressRule) { r.Ports = "+80" }), "port"},
		{"space", rule(func(r *api.EgressRule) { r.Ports = "80, 81" }), "port"},
		{"many ports", rule(func(r *api.EgressRule) { r.Ports = strings.Repeat("1,", maxRanges) + "1" }), "maximum"},
		{"lower-case method", rule(func(r *api.EgressRule) { r.Methods = []string{"get"} }), "method"},
		{"empty method", rule(func(r *api.EgressRule) { r.Methods = []string{""} }), "method"},
		{"many methods", rule(func(r *api.EgressRule) { r.Methods = make([]string, maxMethods+1) }), "methods"},
		{"relative path", rule(func(r *api.EgressRule) { r.Paths = []string{"a"} }), "begin with /"},
		{"path with dots", rule(func(r *api.EgressRule) { r.Paths = []string{"/a/../b"} }), "dot"},
		{"path with a query", rule(func(r *api.EgressRule) { r.Paths = []string{"/a?b"} }), "never match"},
		{"encoded path", rule(func(r *api.EgressRule) { r.Paths = []string{"/a%20b"} }), "never match"},
		{"three wildcards", rule(func(r *api.EgressRule) { r.Paths = []string{"/***"} }), "wildcards"},
		{"many wildcards", rule(func(r *api.EgressRule) { r.Paths = []string{"/" + strings.Repeat("*a", maxStars+1)} }), "wildcards"},
		{"long path", rule(func(r *api.EgressRule) { r.Paths = []string{"/" + long + "a"} }), "maximum"},
		{"many paths", rule(func(r *api.EgressRule) { r.Paths = make([]string, maxPaths+1) }), "paths"},
		{"long rule", rule(func(r *api.EgressRule) {
			for range 17 {
				r.Paths = append(r.Paths, "/"+long)
			}
		}), "bytes"},
		{"paths of tcp", rule(func(r *api.EgressRule) { r.Class, r.Paths = api.EgressTCP, []string{"/"} }), "HTTP"},
		{"methods of passthrough", rule(func(r *api.EgressRule) { r.Class, r.Methods = api.EgressPassthrough, []string{"GET"} }), "HTTP"},
		{"private wildcard", rule(func(r *api.EgressRule) { r.Host, r.Private = "*.example.org", true }), "private"},
		{"private everything", rule(func(r *api.EgressRule) { r.Host, r.Private = "*", true }), "private"},
		{"source", rule(func(r *api.EgressRule) { r.Source = "a\nb" }), "source"},
		{"many rules", api.EgressPolicy{Rules: make([]api.EgressRule, maxRules+1)}, "rules"},
		{"many connections", api.EgressPolicy{MaxConnections: maxConnections + 1}, "maxConnections"},
		{"negative connections", api.EgressPolicy{MaxConnections: -1}, "maxConnections"},
		{"negative bytes", api.EgressPolicy{MaxBytes: -1}, "maxBytes"},
		{"preset", api.EgressPolicy{Presets: []string{"../npm"}}, "preset"},
		{"many presets", api.EgressPolicy{Presets: make([]string, maxPresets+1)}, "presets"},
	} {
		for _, ceiling := range []bool{false, true} {
			own, limit := c.p, (*api.EgressPolicy)(nil)
			if ceiling {
				own, limit = api.EgressPolicy{}, &c.p
			}
			_, err := Compile(own, limit)
			if api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s (ceiling %v): %v, want %q", c.what, ceiling, err, c.want)
			}
			if err != nil && ceiling != strings.Contains(err.Error(), "ceiling") {
				t.Errorf("%s: the error does not say which policy: %v", c.what, err)
			}
		}
	}
	// The paths of all rules together.
	var many api.EgressPolicy
	for range maxPathText/maxPattern + 1 {
		many.Rules = append(many.Rules, api.EgressRule{Action: api.EgressAllow, Host: "example.org", Paths: []string{"/" + long}})
	}
	if _, err := Compile(many, nil); api.KindOf(err) != api.KindInvalid {
		t.Errorf("paths of %d bytes: %v", len(many.Rules)*maxPattern, err)
	}
	many.Rules = many.Rules[:len(many.Rules)-1]
	if _, err := Compile(many, nil); err != nil {
		t.Error(err)
	}
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		own         api.EgressPolicy
		ceiling     *api.EgressPolicy
		connections int
		bytes       int64
	}{
		{api.EgressPolicy{}, nil, api.DefaultEgressConnections, 0},
		{api.EgressPolicy{MaxConnections: 4096, MaxBytes: 7}, &api.EgressPolicy{}, 4096, 7},
		{api.EgressPolicy{MaxConnections: 4096}, &api.EgressPolicy{MaxConnections: 9, MaxBytes: 8}, 9, 8},
		{api.EgressPolicy{MaxConnections: 3, MaxBytes: 5}, &api.EgressPolicy{MaxConnections: 9, MaxBytes: 8}, 3, 5},
	} {
		p, err := Compile(c.own, c.ceiling)
		if err != nil {
			t.Fatal(err)
		}
		if n, b := p.Limits(); n != c.connections || b != c.bytes {
			t.Errorf("%+v under %+v: %d connections, %d bytes", c.own, c.ceiling, n, b)
		}
	}
}

// The index must not change what a walk over all rules would decide.
func FuzzIndex(f *testing.F) {
	f.Add("a.b.c,!*.b.c,*.c,b.c:22,*", "a.b.c", 443)
	f.Add("!10.0.0.0/8,10.0.0.0/7,0.0.0.0/0,*", "10.1.1.1", 22)
	f.Fuzz(func(t *testing.T, list, host string, port int) {
		p, err := ParseAll([]string{list})
		if err != nil {
			return
		}
		c, err := Compile(p, nil)
		if err != nil {
			t.Fatalf("ParseAll returned what Compile refuses: %v", err)
		}
		to, err := NewTarget(host, port)
		if err != nil {
			return
		}
		got := c.Connect(to)
		e, _ := to.resolve()
		want, inspect := (*rule)(nil), false
		for i := range c.own.rules {
			r := &c.own.rules[i]
			h := r.host
			matches := h.any || e.name != "" && (h.name == e.name || h.below != "" && strings.HasSuffix(e.name, "."+h.below)) ||
				h.addresses() && e.addr.IsValid() && h.prefix.Contains(e.addr)
			if !matches || !r.ports.has(e.port) {
				continue
			}
			if r.deny && r.conditional() {
				inspect = true
				continue
			}
			want = r
			break
		}
		if (want == nil) != (got.Rule == "") || want != nil && (want.text != got.Rule || got.Allow == want.deny) {
			t.Errorf("%q, %v: %+v, want %+v", list, to, got, want)
		}
		if got.Allow && got.Inspect != (inspect || want.conditional()) {
			t.Errorf("%q, %v: inspect %v", list, to, got.Inspect)
		}
		if got.Inspect && got.Allow && got.Class != api.EgressWeb {
			t.Errorf("%q, %v: a connection of class %q cannot be inspected", list, to, got.Class)
		}
	})
}

func thousand(t testing.TB) *Policy {
	t.Helper()
	var p api.EgressPolicy
	for i := range maxRules {
		host := fmt.Sprintf("host%d.example.org", i)
		switch i % 4 {
		case 1:
			host = "*." + host
		case 2:
			host = fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)
		}
		p.Rules = append(p.Rules, api.EgressRule{Action: api.EgressAllow, Host: host})
	}
	c, err := Compile(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func BenchmarkName(b *testing.B) {
	p := thousand(b)
	for _, name := range []string{"host999.example.org", "a.host997.example.org", "nowhere.example.com"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Name(name)
			}
		})
	}
}

func BenchmarkConnect(b *testing.B) {
	p := thousand(b)
	for _, host := range []string{"host999.example.org", "10.3.230.1", "192.0.2.1"} {
		b.Run(host, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Connect(Target{host, 443})
			}
		})
	}
}
