package policy

import (
	"reflect"
	"strings"
	"testing"

	"hortus.dev/api"
)

func TestParse(t *testing.T) {
	rule := func(r api.EgressRule) api.EgressPolicy {
		if r.Action == "" {
			r.Action = api.EgressAllow
		}
		return api.EgressPolicy{Rules: []api.EgressRule{r}}
	}
	for _, c := range []struct {
		spec string
		want api.EgressPolicy
		text string // of Format; empty is spec
	}{
		{"none", api.EgressPolicy{}, "-"},
		{"ask", api.EgressPolicy{Ask: true}, "-"},
		{"npm", api.EgressPolicy{Presets: []string{"npm"}}, "-"},
		{"example.org", rule(api.EgressRule{Host: "example.org"}), ""},
		{"Example.ORG.", rule(api.EgressRule{Host: "example.org"}), "example.org"},
		{"example.org:80,443", rule(api.EgressRule{Host: "example.org"}), "example.org"},
		{"example.org:443", rule(api.EgressRule{Host: "example.org", Ports: "443"}), ""},
		{"example.org:443,80-81,82", rule(api.EgressRule{Host: "example.org", Ports: "80-82,443"}), "example.org:80-82,443"},
		{"example.org:*", rule(api.EgressRule{Host: "example.org", Ports: "*"}), ""},
		{"https://example.org", rule(api.EgressRule{Host: "example.org", Ports: "443"}), "example.org:443"},
		{"http://example.org", rule(api.EgressRule{Host: "example.org", Ports: "80"}), "example.org:80"},
		{"https://example.org:8443/a", rule(api.EgressRule{Host: "example.org", Ports: "8443", Paths: []string{"/a"}}), "example.org:8443/a"},
		{"*.example.org:8080", rule(api.EgressRule{Host: "*.example.org", Ports: "8080"}), ""},
		{"*", rule(api.EgressRule{Host: "*"}), ""},
		{"*:443", rule(api.EgressRule{Host: "*", Ports: "443"}), ""},
		{"tcp://*", rule(api.EgressRule{Host: "*", Class: api.EgressTCP}), ""},
		{"tcp://db.example.org:5432", rule(api.EgressRule{Host: "db.example.org", Ports: "5432", Class: api.EgressTCP}), ""},
		{"passthrough://example.org", rule(api.EgressRule{Host: "example.org", Class: api.EgressPassthrough}), ""},
		{"passthrough://host", rule(api.EgressRule{Host: "host", Class: api.EgressPassthrough}), ""},
		{"web://db", rule(api.EgressRule{Host: "db"}), ""},
		{"web://all", rule(api.EgressRule{Host: "all"}), ""},
		{"db:8080", rule(api.EgressRule{Host: "db", Ports: "8080"}), ""},
		{"db/a", rule(api.EgressRule{Host: "db", Paths: []string{"/a"}}), ""},
		{"GET db", rule(api.EgressRule{Host: "db", Methods: []string{"GET"}}), ""},
		{"!web://db", rule(api.EgressRule{Action: api.EgressDeny, Host: "db", Ports: "*"}), ""},
		{"!example.org", rule(api.EgressRule{Action: api.EgressDeny, Host: "example.org", Ports: "*"}), ""},
		{"!example.org:80,443", rule(api.EgressRule{Action: api.EgressDeny, Host: "example.org"}), ""},
		{"!tcp://example.org:22", rule(api.EgressRule{Action: api.EgressDeny, Host: "example.org", Ports: "22"}), "!example.org:22"},
		{"!example.org/x", rule(api.EgressRule{Action: api.EgressDeny, Host: "example.org", Paths: []string{"/x"}}), ""},
		{"!10.0.0.0/8", rule(api.EgressRule{Action: api.EgressDeny, Host: "10.0.0.0/8"}), ""},
		{"!*", rule(api.EgressRule{Action: api.EgressDeny, Host: "*"}), ""},
		{"10.0.0.0/8:22", rule(api.EgressRule{Host: "10.0.0.0/8", Ports: "22"}), ""},
		{"10.0.0.0/8:22,private", rule(api.EgressRule{Host: "10.0.0.0/8", Ports: "22", Private: true}), ""},
		{"10.0.0.0/8/8", rule(api.EgressRule{Host: "10.0.0.0/8", Paths: []string{"/8"}}), ""},
		{"192.0.2.1:*/8", rule(api.EgressRule{Host: "192.0.2.1", Paths: []string{"/8"}}), ""},
		{"192.0.2.1/a", rule(api.EgressRule{Host: "192.0.2.1", Paths: []string{"/a"}}), "192.0.2.1:*/a"},
		{"192.0.2.1", rule(api.EgressRule{Host: "192.0.2.1"}), ""},
		{"192.0.2.1/32", rule(api.EgressRule{Host: "192.0.2.1"}), "192.0.2.1"},
		{"[2001:db8::1]:443", rule(api.EgressRule{Host: "2001:db8::1", Ports: "443"}), ""},
		{"[2001:db8::/32]:443/a", rule(api.EgressRule{Host: "2001:db8::/32", Ports: "443", Paths: []string{"/a"}}), ""},
		{"2001:DB8:0::/32", rule(api.EgressRule{Host: "2001:db8::/32"}), "[2001:db8::/32]"},
		{"tcp://::1", rule(api.EgressRule{Host: "::1", Class: api.EgressTCP}), "tcp://[::1]"},
		{"example.org/path/**", rule(api.EgressRule{Host: "example.org", Paths: []string{"/path/**"}}), ""},
		{"example.org/a|/b", rule(api.EgressRule{Host: "example.org", Paths: []string{"/a", "/b"}}), ""},
		{"example.org/a%20b%2Cc%7Cd", rule(api.EgressRule{Host: "example.org", Paths: []string{"/a b,c|d"}}), ""},
		{"GET,HEAD example.org/path", rule(api.EgressRule{Host: "example.org", Methods: []string{"GET", "HEAD"}, Paths: []string{"/path"}}), ""},
		{"!POST,PUT https://example.org", rule(api.EgressRule{Action: api.EgressDeny, Host: "example.org", Ports: "443", Methods: []string{"POST", "PUT"}}), "!POST,PUT example.org:443"},
		{"mirror.example.org:4873,private", rule(api.EgressRule{Host: "mirror.example.org", Ports: "4873", Private: true}), ""},
	} {
		got, err := Parse(c.spec)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %+v, %v, want %+v", c.spec, got, err, c.want)
			continue
		}
		if c.text == "-" {
			continue
		}
		if c.text == "" {
			c.text = c.spec
		}
		if text := Format(got.Rules[0]); text != c.text {
			t.Errorf("%q: formatted %q, want %q", c.spec, text, c.text)
		}
	}
	if p, err := Parse("all"); err != nil || len(p.Rules) != 2 || Format(p.Rules[0]) != "*:80,443" || Format(p.Rules[1]) != "tcp://*" {
		t.Errorf("all: %+v, %v", p, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, spec := range []string{
		"", " ", "private", "!npm", "!all", "!", "example.org:", "example.org:0", "example.org:http", "udp://example.org", "://example.org", "tcp://",
		"GET", "get example.org", "GET  ", "tcp://example.org/a", "GET tcp://example.org", "*.example.org,private", "*,private", "example.org,public",
		"exam ple.org", "127.1", "0x7f.1:80", "2130706433", "10.1.2.3/8", "10.0.0.0/33", "[10.0.0.1]:80", "[::1", "[::1]x", "[::ffff:1.2.3.4/120]",
		"example.org/a/../b", "example.org/a?b", "example.org/%2e%2e/a", "example.org/a|b", "example.org/a%", "example.org/a%zz", "example.org/a%2Fb%5c",
		"example.org/%2A", "example.org//a", "example.org:80:443", "user@example.org", "bücher.example", "a,b.org", "example.org:80/a,private,private",
	} {
		if p, err := Parse(spec); api.KindOf(err) != api.KindInvalid || api.HintOf(err) == "" {
			t.Errorf("%q: %+v, %v, hint %q", spec, p, err, api.HintOf(err))
		}
	}
}

func TestParseAll(t *testing.T) {
	p, err := ParseAll([]string{
		"npm, GET,HEAD example.org:80,8000-8999/a%2Cb,private", "!evil.example.org,ask", "pip,npm", "tcp://db.example.org:5432,5433", "!PUT,POST db/x,*.org",
	})
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, r := range p.Rules {
		texts = append(texts, Format(r))
	}
	want := []string{"GET,HEAD example.org:80,8000-8999/a%2Cb,private", "!evil.example.org", "tcp://db.example.org:5432-5433", "!PUT,POST db/x", "*.org"}
	if !reflect.DeepEqual(texts, want) {
		t.Errorf("%q, want %q", texts, want)
	}
	if !reflect.DeepEqual(p.Presets, []string{"npm", "pip"}) || !p.Ask {
		t.Errorf("%+v", p)
	}
	for _, none := range [][]string{nil, {}, {"none"}} {
		if p, err := ParseAll(none); err != nil || !reflect.DeepEqual(p, api.EgressPolicy{}) {
			t.Errorf("%q: %+v, %v", none, p, err)
		}
	}
	for _, specs := range [][]string{
		{""}, {"npm,"}, {",npm"}, {"none", "npm"}, {"npm,none"}, {"443"}, {"GET"}, {"GET,example.org"}, {"npm,GET"}, {"private"}, {"npm,private"}, {"npm,443"}, {"GET,!HEAD example.org"},
		{strings.Repeat("example.org,", maxRules) + "example.org"}, {strings.Repeat("a", maxRuleText+1)},
	} {
		if p, err := ParseAll(specs); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%.80q: %+v, %v", specs, p, err)
		}
	}
}

func TestSummary(t *testing.T) {
	p, err := ParseAll([]string{"GET,HEAD example.org:443/a/**,!*.example.com,tcp://db.example.org:5432,private,10.0.0.0/8:22-23,passthrough://web.example.org,*,ask,npm,pip"})
	if err != nil {
		t.Fatal(err)
	}
	p.Rules = append(p.Rules, api.EgressRule{Action: api.EgressAllow, Host: "npm.example.org", Source: "npm"})
	if got := Summary(p); got != "npm, pip, 6 rules, asks about the rest" {
		t.Error(got)
	}
	if got := Summary(api.EgressPolicy{}); got != "nothing" {
		t.Error(got)
	}
}

// FuzzSpec: what is read and written again is the same rule.
func FuzzSpec(f *testing.F) {
	for _, s := range []string{"GET,HEAD example.org:80,8000-8999/a%2Cb|/c,private", "!web://db", "[2001:db8::/32]:*/8", "10.0.0.0/8/8", "192.0.2.1:*/8", "all,ask,npm", "!POST *.a/**"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		all, err := ParseAll([]string{s})
		if err != nil {
			if api.KindOf(err) != api.KindInvalid {
				t.Fatalf("%q: %v", s, err)
			}
			return
		}
		for _, r := range all.Rules {
			text := Format(r)
			for name, parse := range map[string]func() (api.EgressPolicy, error){
				"Parse":    func() (api.EgressPolicy, error) { return Parse(text) },
				"ParseAll": func() (api.EgressPolicy, error) { return ParseAll([]string{"a.org," + text + ",b.org"}) },
			} {
				again, err := parse()
				at := len(again.Rules) / 2
				if err != nil || len(again.Rules) != 1+2*at || !reflect.DeepEqual(again.Rules[at], r) {
					t.Fatalf("%q: %s(%q) is %+v, %v, want %+v", s, name, text, again, err, r)
				}
			}
		}
	})
}

// FuzzRule: a rule of an API client that Compile accepts keeps its meaning as text.
func FuzzRule(f *testing.F) {
	f.Add(false, "example.org", "443", "", "GET", "/a b", true)
	f.Add(true, "db", "", "tcp", "", "", false)
	f.Add(true, "10.0.0.1", "*", "", "", "/8", false)
	f.Fuzz(func(t *testing.T, deny bool, host, ports, class, method, path string, private bool) {
		r := api.EgressRule{Action: api.EgressAllow, Host: host, Ports: ports, Class: api.EgressClass(class), Private: private}
		if deny {
			r.Action = api.EgressDeny
		}
		if method != "" {
			r.Methods = strings.Split(method, " ")
		}
		if path != "" {
			r.Paths = strings.Split(path, "\n")
		}
		want, err := compileRule(r)
		text := Format(r)
		if err != nil {
			return
		}
		p, err := Parse(text)
		if err != nil || len(p.Rules) != 1 {
			t.Fatalf("%+v is %q: %+v, %v", r, text, p, err)
		}
		got, err := compileRule(p.Rules[0])
		if err != nil {
			t.Fatal(err)
		}
		if deny && want.methods == nil && want.paths == nil {
			want.class, got.class = "", "" // it has no effect
		}
		if got.text != want.text || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v is %q: %+v, want %+v", r, text, got, want)
		}
	})
}
