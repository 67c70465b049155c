package api

import (
	"slices"
	"strings"
	"testing"
)

func TestEgressBounds(t *testing.T) {
	rule := func(change func(*EgressRule)) EgressPolicy {
		r := EgressRule{Action: EgressAllow, Host: "a.example"}
		if change != nil {
			change(&r)
		}
		return EgressPolicy{Rules: []EgressRule{r}}
	}
	long := func(n int) string { return strings.Repeat("x", n) }
	many := func(n, size int) EgressPolicy {
		return EgressPolicy{Rules: slices.Repeat([]EgressRule{{Action: EgressDeny, Host: "a", Paths: []string{long(size)}}}, n)}
	}
	for name, c := range map[string]struct {
		p  EgressPolicy
		ok bool
	}{
		"zero":             {EgressPolicy{}, true},
		"a rule":           {rule(nil), true},
		"most rules":       {many(MaxEgressRules, 1), true},
		"one too many":     {many(MaxEgressRules+1, 1), false},
		"too much text":    {many(200, MaxEgressPath), false},
		"most presets":     {EgressPolicy{Presets: slices.Repeat([]string{"npm"}, MaxEgressPresets)}, true},
		"too many presets": {EgressPolicy{Presets: slices.Repeat([]string{"npm"}, MaxEgressPresets+1)}, false},
		"no preset":        {EgressPolicy{Presets: []string{""}}, false},
		"connections":      {EgressPolicy{MaxConnections: MaxEgressConnections}, true},
		"many connections": {EgressPolicy{MaxConnections: MaxEgressConnections + 1}, false},
		"less than none":   {EgressPolicy{MaxConnections: -1}, false},
		"bytes":            {EgressPolicy{MaxBytes: -1}, false},
		"no action":        {rule(func(r *EgressRule) { r.Action = "" }), false},
		"class":            {rule(func(r *EgressRule) { r.Class = "udp" }), false},
		"no host":          {rule(func(r *EgressRule) { r.Host = "" }), false},
		"long host":        {rule(func(r *EgressRule) { r.Host = long(MaxEgressHost + 1) }), false},
		"long ports":       {rule(func(r *EgressRule) { r.Ports = long(MaxEgressPorts + 1) }), false},
		"long source":      {rule(func(r *EgressRule) { r.Source = long(MaxEgressSource + 1) }), false},
		"methods":          {rule(func(r *EgressRule) { r.Methods = slices.Repeat([]string{"GET"}, MaxEgressMethods+1) }), false},
		"long method":      {rule(func(r *EgressRule) { r.Methods = []string{long(MaxEgressMethod + 1)} }), false},
		"paths":            {rule(func(r *EgressRule) { r.Paths = slices.Repeat([]string{"/"}, MaxEgressPaths+1) }), false},
		"long path":        {rule(func(r *EgressRule) { r.Paths = []string{long(MaxEgressPath + 1)} }), false},
		"not UTF-8":        {rule(func(r *EgressRule) { r.Host = "\xff" }), false},
	} {
		err := c.p.CheckBounds()
		if c.ok && err != nil || !c.ok && KindOf(err) != KindInvalid {
			t.Errorf("%s: %v", name, err)
		}
		if serr := (CreateSandbox{Egress: &c.p}).CheckBounds(); (serr == nil) != (err == nil) {
			t.Errorf("%s: a request for a sandbox: %v", name, serr)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("%s: the message has %d bytes", name, len(err.Error()))
		}
	}
	if err := (AddEgressRules{}).CheckBounds(); KindOf(err) != KindInvalid {
		t.Errorf("no rules: %v", err)
	}
}

func TestWithRules(t *testing.T) {
	a, b, c := EgressRule{Action: EgressAllow, Host: "a"}, EgressRule{Action: EgressAllow, Host: "b", Source: "npm"}, EgressRule{Action: EgressDeny, Host: "b"}
	p := EgressPolicy{Ask: true, Rules: []EgressRule{a, b}}
	again := b
	again.Source = "ask"
	got := p.WithRules([]EgressRule{c, again})
	if hosts := []string{got.Rules[0].Host, got.Rules[1].Source, got.Rules[2].Host}; !slices.Equal(hosts, []string{"b", "ask", "a"}) || len(got.Rules) != 3 || !got.Ask {
		t.Errorf("%+v", got)
	}
	if len(p.Rules) != 2 || p.Rules[0].Host != "a" {
		t.Errorf("the policy itself changed: %+v", p)
	}
	for want, p := range map[bool][]EgressPolicy{
		true: {{Ask: true}, {Presets: []string{"npm"}}, {Rules: []EgressRule{c, a}}}, false: {{}, {MaxBytes: 1}, {Rules: []EgressRule{c}}},
	} {
		for _, p := range p {
			if p.Opens() != want {
				t.Errorf("%+v opens: %v", p, !want)
			}
		}
	}
}
