package e2b_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/egress/policy"
	"hortus.dev/internal/server/e2b"
)

// headersOf shows header rules, sorted.
func headersOf(p *api.EgressPolicy) string {
	if p == nil {
		return ""
	}
	var out []string
	for _, r := range p.Headers {
		line := r.Host
		for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
			line += " " + name + "=" + r.Headers[name]
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// headerRules of one host, as a client sends them.
func headerRules(host, name, value string) string {
	b, err := json.Marshal(map[string]any{host: []any{map[string]any{"transform": map[string]any{"headers": map[string]string{name: value}}}}})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestRules: network.rules become header rules, when a sandbox is made and when its network is
// replaced, and answers have them as they were sent.
func TestRules(t *testing.T) {
	x := &walled{rows: map[api.SandboxID]*api.EgressPolicy{}}
	w := newWorld(t, func(cfg *e2b.Config) {
		x.accounts = cfg.Sandboxes.(accounts)
		cfg.Sandboxes, cfg.Egress, cfg.Policy = x, x, policy.FromE2B
	})
	const host = "api.example.org"
	many := `{` + strings.TrimSuffix(strings.Repeat(`"X":[],`, 1), ",") + `}`
	for i := range 33 {
		many = strings.Replace(many, "}", `,"h`+strings.Repeat("x", i)+`.example":[]}`, 1)
	}
	put := w.make(t, `{"templateID":"base"}`)
	for _, c := range []struct {
		name, rules string
		status      int
		want        string // the rules, or what the error names beside the option
	}{
		{"none", `{}`, 2, ""},
		{"null", `null`, 2, ""},
		{"a value", headerRules(host, "X-Env", "test"), 2, host + " X-Env=test"},
		{"a secret", headerRules(host, "Authorization", "Bearer ${e2b.secrets.OpenAI-Key}!"), 2, host + " Authorization=Bearer ${secret:openai-key}!"},
		{"two secrets", headerRules(host, "X-Key", "${e2b.secrets.a}:${e2b.secrets.b}"), 2, host + " X-Key=${secret:a}:${secret:b}"},
		{"other text with $", headerRules(host, "X-Key", "${x} $${e2b.secrets.a}"), 2, host + " X-Key=${x} $${secret:a}"},
		{"a wildcard", headerRules("*.example.org", "X-Key", "a"), 2, "*.example.org X-Key=a"},
		{"an empty list", `{"api.example.org":[]}`, 2, host},
		{"an empty rule", `{"api.example.org":[{}]}`, 2, host},
		{"an empty transform", `{"api.example.org":[{"transform":{}}]}`, 2, host},
		{"two hosts", `{"a.example":[{"transform":{"headers":{"X-A":"a"}}}],"b.example":[{"transform":{"headers":{"X-B":"b"}}}]}`, 2, "a.example X-A=a; b.example X-B=b"},
		{"two rules of a host", `{"api.example.org":[{},{}]}`, 4, "2 rules"},
		{"many hosts", many, 4, "34 header rules"},
		{"a token of iam", headerRules(host, "X-Key", "Bearer ${e2b.identity.tokens.aws}"), 4, "workload identity is not supported"},
		{"another reference", headerRules(host, "X-Key", "${e2b.other.x}"), 4, "not known"},
		{"a reference without an end", headerRules(host, "X-Key", "${e2b.secrets.a"), 4, "without the name"},
		{"a reference without a name", headerRules(host, "X-Key", "${e2b.secrets.}"), 4, "without the name"},
		{"an ID in place of a name", headerRules(host, "X-Key", "${e2b.secrets.sec_0}"), 4, "without the name"},
		{"a reference of Hortus", headerRules(host, "X-Key", "${secret:a}"), 4, "cannot be sent"},
		{"the header Host", headerRules(host, "Host", "b.example"), 4, "cannot set"},
		{"the header Connection", headerRules(host, "connection", "close"), 4, "cannot set"},
		{"a line break", headerRules(host, "X-Key", "a\r\nX-Other: b"), 4, "line break"},
		{"an address", headerRules("192.0.2.1", "X-Key", "a"), 4, "address"},
		{"every host", headerRules("*", "X-Key", "a"), 4, "not a name"},
		{"an unknown member", `{"api.example.org":[{"transform":{"body":{}}}]}`, 4, "body"},
		{"no list", `{"api.example.org":{}}`, 4, ""},
		{"no text", `{"api.example.org":[{"transform":{"headers":{"X-Key":1}}}]}`, 4, ""},
	} {
		r := w.ask(t, "POST", "/v2/sandboxes", `{"templateID":"base","timeout":60,"network":{"allowOut":["`+host+`"],"denyOut":["0.0.0.0/0"],"rules":`+c.rules+`}}`)
		p := w.ask(t, "PUT", "/sandboxes/"+put+"/network", `{"rules":`+c.rules+`}`)
		if r.status/100 != c.status || p.status/100 != c.status {
			t.Errorf("%s: %d %s, %d %s", c.name, r.status, r.body, p.status, p.body)
			continue
		}
		if c.status == 4 {
			for _, r := range []reply{r, p} {
				if !strings.Contains(r.body, c.want) || !strings.Contains(r.body, "option") {
					t.Errorf("%s: %d %s", c.name, r.status, r.body)
				}
			}
			continue
		}
		id := r.body[strings.Index(r.body, `"i`)+1:][:api.IDLen]
		for _, id := range []string{id, put} {
			if got := headersOf(x.rows[api.SandboxID(id)]); got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
		}
		if got := rulesOf(x.rows[api.SandboxID(id)]); got != "[allow "+host+" deny 0.0.0.0/0]" {
			t.Errorf("%s: %s", c.name, got)
		}
		// Names of secrets are in lower case, and a rule without headers is an empty list.
		var have struct {
			Network struct{ Rules map[string]any }
		}
		var want map[string]any
		sent := strings.NewReplacer("OpenAI-Key", "openai-key", "[{}]", "[]", `[{"transform":{}}]`, "[]").Replace(c.rules)
		if err := json.Unmarshal([]byte(w.ask(t, "GET", "/sandboxes/"+id, "").body), &have); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(sent), &want); err != nil {
			t.Fatal(err)
		}
		a, _ := json.Marshal(have.Network.Rules)
		b, _ := json.Marshal(want)
		if string(a) != string(b) && (len(want) > 0 || len(have.Network.Rules) > 0) {
			t.Errorf("%s: getInfo has %s, want %s", c.name, a, b)
		}
	}
	// What is left out is cleared.
	for _, body := range []string{`{}`, `{"rules":{}}`, ``} {
		w.ask(t, "PUT", "/sandboxes/"+put+"/network", `{"rules":`+headerRules(host, "X-Key", "a")+`}`)
		if headersOf(x.rows[api.SandboxID(put)]) == "" {
			t.Fatal("the control: the rule is not there")
		}
		if r := w.ask(t, "PUT", "/sandboxes/"+put+"/network", body); r.status != 204 || headersOf(x.rows[api.SandboxID(put)]) != "" {
			t.Errorf("%q: %d, %s", body, r.status, headersOf(x.rows[api.SandboxID(put)]))
		}
	}
	// A secret that cannot be used is about the option, not about a template or the key.
	for _, kind := range []api.Kind{api.KindNotFound, api.KindDenied} {
		x.unknown = api.Errorf(kind, "header rule for %s: there is no secret a", host).WithHint("make one: hortus secret set a --for-headers")
		r := w.ask(t, "POST", "/v2/sandboxes", `{"templateID":"base","network":{"rules":`+headerRules(host, "X-Key", "${e2b.secrets.a}")+`}}`)
		if r.status != 400 || !strings.Contains(r.body, "network.rules") || !strings.Contains(r.body, "no secret a") || !strings.Contains(r.body, "Secret.create()") {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
}

// TestRulesOfTheHost: where a sandbox shares the network of its host, no header can be set.
func TestRulesOfTheHost(t *testing.T) {
	w := newWorld(t, nil)
	rules := headerRules("api.example.org", "X-Key", "a")
	if r := w.ask(t, "POST", "/v2/sandboxes", `{"templateID":"base","network":{"rules":`+rules+`}}`); r.status != 400 || !strings.Contains(r.body, "network.rules") {
		t.Errorf("%d %s", r.status, r.body)
	}
	id := w.make(t, `{"templateID":"base"}`) // the control
	if r := w.ask(t, "PUT", "/sandboxes/"+id+"/network", `{"rules":`+rules+`}`); r.status != 400 || !strings.Contains(r.body, "network.rules") {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// FuzzRuleValue: a value that is accepted is one for Hortus, and comes back as it was, but for the
// case of names and spaces around them.
func FuzzRuleValue(f *testing.F) {
	for _, s := range []string{"", "a", "${e2b.secrets.a}", "x${e2b.secrets. A-b }y${e2b.secrets.c}", "${e2b.secrets.a", "${secret:a}", "${e2b.identity.tokens.a}", "${e2b.secrets.${e2b.secrets.a}}"} {
		f.Add(s)
	}
	plain := func(s string) string {
		return strings.Join(strings.FieldsFunc(strings.ToLower(s), unicode.IsSpace), "")
	}
	f.Fuzz(func(t *testing.T, value string) {
		own, err := e2b.OwnValue(value)
		if err != nil {
			return
		}
		if _, err := secrets.Template(own); err != nil {
			t.Errorf("%q became %q: %v", value, own, err)
		}
		back := e2b.RulesOf([]api.HeaderRule{{Host: "a.example", Headers: map[string]string{"X": own}}})["a.example"][0].Transform.Headers["X"]
		if plain(back) != plain(value) {
			t.Errorf("%q became %q, and %q", value, own, back)
		}
	})
}
