package manager_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
)

// headersOf shows the header rules of a sandbox.
func headersOf(s api.Sandbox) string {
	if s.EgressPolicy == nil {
		return ""
	}
	var out []string
	for _, r := range s.EgressPolicy.Headers {
		for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
			out = append(out, r.Host+" "+name+"="+r.Headers[name])
		}
	}
	return strings.Join(out, "; ")
}

func header(host, name, value string) api.HeaderRule {
	return api.HeaderRule{Host: host, Port: 443, Headers: map[string]string{name: value}}
}

// TestHeaders: header rules are part of the policy, and allow nothing.
func TestHeaders(t *testing.T) {
	o := newOutside(t, nil)
	ctx := t.Context()
	one, two := header("a.example", "X-Key", "${secret:one}"), header("b.example", "X-Env", "two")
	s := o.create(t, api.CreateSandbox{Isolation: "fake", Account: "ada", Egress: allowing("a.example"), Headers: []api.HeaderRule{one, two}})
	if hosts(s) != "a.example" || headersOf(s) != "a.example X-Key=${secret:one}; b.example X-Env=two" || s.Env != nil || s.Secrets != nil {
		t.Errorf("%s: %s %+v", hosts(s), headersOf(s), s)
	}
	// Without a policy they open nothing.
	if alone := o.create(t, api.CreateSandbox{Isolation: "fake", Headers: []api.HeaderRule{one}}); alone.Egress != api.EgressNone || headersOf(alone) != "a.example X-Key=${secret:one}" {
		t.Errorf("%s: %s", alone.Egress, headersOf(alone))
	}
	// More rules keep them. Another policy replaces them.
	row, err := o.Policies.AddEgressRules(ctx, s.ID, allowing("c.example").Rules)
	if err != nil || hosts(row) != "c.example a.example" || headersOf(row) != headersOf(s) {
		t.Errorf("%s, %s, %v", hosts(row), headersOf(row), err)
	}
	next := allowing("b.example")
	next.Headers = []api.HeaderRule{two}
	if row, err = o.Policies.SetEgress(ctx, s.ID, *next); err != nil || headersOf(row) != "b.example X-Env=two" {
		t.Errorf("%s, %v", headersOf(row), err)
	}
	if row, err = o.Policies.SetEgress(ctx, s.ID, *allowing("b.example")); err != nil || headersOf(row) != "" {
		t.Errorf("%s, %v", headersOf(row), err)
	}
}

// TestHeadersOfAccount: the secrets in rules are those of the account of the sandbox, however it gets
// the rules.
func TestHeadersOfAccount(t *testing.T) {
	o := newOutside(t, nil)
	own, other := allowing("a.example"), allowing("a.example")
	own.Headers = []api.HeaderRule{header("a.example", "X-Key", "${secret:of-ada}")}
	other.Headers = []api.HeaderRule{header("a.example", "X-Key", "${secret:of-bob}")}
	s := o.create(t, api.CreateSandbox{Isolation: "fake", Account: "ada"})
	for name, set := range map[string]func(p api.EgressPolicy) error{
		"created": func(p api.EgressPolicy) error {
			row, err := o.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "fake", Account: "ada", Egress: &p})
			if err == nil {
				o.Sandboxes.Kill(t.Context(), row.ID)
			}
			return err
		},
		"set": func(p api.EgressPolicy) error {
			_, err := o.Policies.SetEgress(t.Context(), s.ID, p)
			return err
		},
		"forked": func(p api.EgressPolicy) error {
			_, err := o.Forker.Fork(t.Context(), s.ID, api.ForkSandbox{Egress: &p})
			return err
		},
	} {
		if err := set(*own); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := set(*other); api.KindOf(err) != api.KindNotFound {
			t.Errorf("%s, with a secret of another account: %v", name, err)
		}
	}
}

// TestHeadersOfForks: a child has the rules whose secrets were named for it.
func TestHeadersOfForks(t *testing.T) {
	o := newOutside(t, nil)
	ctx := t.Context()
	s := o.create(t, api.CreateSandbox{Isolation: "fake", Egress: allowing("a.example"), Secrets: []api.SecretGrant{{Name: "bound"}}, Headers: []api.HeaderRule{
		header("a.example", "X-Key", "${secret:one}"), header("b.example", "X-Key", "${secret:one}${secret:two}"), header("c.example", "X-Env", "free"),
	}})
	fork := func(id api.SandboxID, req api.ForkSandbox) api.Sandbox {
		t.Helper()
		f, err := o.Forker.Fork(ctx, id, req)
		if err != nil || f.Children[0].Sandbox == nil {
			t.Fatalf("%+v, %v", f, err)
		}
		return *f.Children[0].Sandbox
	}
	explicit := allowing("d.example")
	explicit.Headers = []api.HeaderRule{header("d.example", "X-Key", "${secret:two}")}
	for name, c := range map[string]struct {
		req  api.ForkSandbox
		want string
	}{
		"none":           {api.ForkSandbox{}, "c.example X-Env=free"},
		"one":            {api.ForkSandbox{Secrets: []string{"one"}}, "a.example X-Key=${secret:one}; c.example X-Env=free"},
		"both":           {api.ForkSandbox{Secrets: []string{"two", "one", "bound"}}, "a.example X-Key=${secret:one}; b.example X-Key=${secret:one}${secret:two}; c.example X-Env=free"},
		"another policy": {api.ForkSandbox{Egress: explicit}, "d.example X-Key=${secret:two}"},
	} {
		if child := fork(s.ID, c.req); headersOf(child) != c.want {
			t.Errorf("%s: %s, want %s", name, headersOf(child), c.want)
		}
	}
	if _, err := o.Forker.Fork(ctx, s.ID, api.ForkSandbox{Secrets: []string{"three"}}); api.KindOf(err) != api.KindInvalid {
		t.Errorf("a secret that no rule of the parent names: %v", err)
	}
	child := fork(s.ID, api.ForkSandbox{Secrets: []string{"one"}})
	if _, err := o.Forker.Fork(ctx, child.ID, api.ForkSandbox{Secrets: []string{"two"}}); api.KindOf(err) != api.KindInvalid {
		t.Errorf("a secret of the grandparent's rules: %v", err)
	}
	if got := headersOf(fork(child.ID, api.ForkSandbox{Secrets: []string{"one"}})); got != "a.example X-Key=${secret:one}; c.example X-Env=free" {
		t.Errorf("a grandchild: %s", got)
	}
}

func TestHeadersRefused(t *testing.T) {
	o := newOutside(t, nil)
	policy := allowing("a.example")
	policy.Headers = []api.HeaderRule{header("a.example", "X-Key", "a")}
	for name, c := range map[string]struct {
		req  api.CreateSandbox
		kind api.Kind
	}{
		"the control":             {api.CreateSandbox{Headers: []api.HeaderRule{header("a.example", "X-Key", "${secret:one}")}}, ""},
		"an unknown secret":       {api.CreateSandbox{Headers: []api.HeaderRule{header("a.example", "X-Key", "${secret:unknown}")}}, api.KindNotFound},
		"the header Host":         {api.CreateSandbox{Headers: []api.HeaderRule{header("a.example", "Host", "b.example")}}, api.KindInvalid},
		"a line break":            {api.CreateSandbox{Headers: []api.HeaderRule{header("a.example", "X-Key", "a\r\nX: y")}}, api.KindInvalid},
		"the policy has the host": {api.CreateSandbox{Egress: policy, Headers: []api.HeaderRule{header("a.example", "X-Other", "a")}}, api.KindInvalid},
		"another host":            {api.CreateSandbox{Egress: policy, Headers: []api.HeaderRule{header("b.example", "X-Other", "a")}}, ""},
	} {
		c.req.Isolation = "fake"
		row, err := o.Creator.Create(context.Background(), c.req)
		if api.KindOf(err) != c.kind {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			o.Sandboxes.Kill(t.Context(), row.ID)
		}
	}
	// A ceiling and a default have none: they are not of one sandbox, nor of one account.
	if err := o.Policies.CheckEgress(t.Context(), *policy); api.KindOf(err) != api.KindInvalid {
		t.Errorf("a ceiling: %v", err)
	}
	if err := o.Policies.CheckEgress(t.Context(), *allowing("a.example")); err != nil {
		t.Errorf("the control: %v", err)
	}
	s := o.create(t, api.CreateSandbox{Isolation: "fake", Egress: allowing("a.example")})
	if _, err := o.Saver.Snapshot(t.Context(), s.ID, api.CreateSnapshot{Name: "x", FilesOnly: true, DefaultEgress: policy}); api.KindOf(err) != api.KindInvalid {
		t.Errorf("a default: %v", err)
	}
	// A rule whose secret was removed does not keep the policy from being changed otherwise.
	old := o.create(t, api.CreateSandbox{Isolation: "fake", Egress: allowing("a.example"), Headers: []api.HeaderRule{header("a.example", "X-Key", "${secret:one}")}})
	o.server.forget("one")
	row, err := o.Policies.AddEgressRules(t.Context(), old.ID, allowing("c.example").Rules)
	if err != nil || headersOf(row) != "a.example X-Key=${secret:one}" {
		t.Errorf("%s, %v", headersOf(row), err)
	}
	if _, err := o.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "fake", Headers: []api.HeaderRule{header("a.example", "X-Key", "${secret:one}")}}); api.KindOf(err) != api.KindNotFound {
		t.Errorf("the control, a new rule: %v", err)
	}
}
