package manager_test

import (
	"context"
	"strings"
	"testing"

	"hortus.dev/api"
)

// hosts are the hosts that the policy of a sandbox allows, in the order of its rules.
func hosts(s api.Sandbox) string {
	if s.EgressPolicy == nil {
		return ""
	}
	var out []string
	for _, r := range s.EgressPolicy.Rules {
		out = append(out, r.Host)
	}
	return strings.Join(out, " ")
}

// TestSecrets: a sandbox has a placeholder for each secret that it was granted, and its hosts are allowed, after the rules
// of the policy and whatever becomes of these.
func TestSecrets(t *testing.T) {
	o := newOutside(t, nil)
	ctx := t.Context()
	grants := []api.SecretGrant{{Name: "forge-token"}, {Name: "other", Env: "KEY"}}
	s := o.create(t, api.CreateSandbox{Isolation: "fake", Account: "ada", Egress: allowing("a.example"), Secrets: grants})
	if got := hosts(s); got != "a.example forge-token.example.org other.example.org" {
		t.Errorf("rules for %s", got)
	}
	if len(s.Secrets) != 2 || strings.Join(s.EnvNames, " ") != "FORGE_TOKEN KEY" || s.Env["KEY"] != `placeholder 2 of other for "ada"` {
		t.Errorf("%+v %v", s.Secrets, s.Env)
	}
	// Without a policy there is one for the secrets alone.
	if alone := o.create(t, api.CreateSandbox{Isolation: "fake", Secrets: grants[:1]}); hosts(alone) != "forge-token.example.org" || alone.Egress != api.EgressRules {
		t.Errorf("%s: %s", alone.Egress, hosts(alone))
	}
	// The control: one without secrets has neither.
	if none := o.create(t, api.CreateSandbox{Isolation: "fake", Egress: allowing("a.example")}); hosts(none) != "a.example" || none.Secrets != nil || none.EnvNames != nil {
		t.Errorf("%s %+v", hosts(none), none)
	}
	// Another policy leaves the secrets alone, and makes no other placeholders.
	row, err := o.Policies.SetEgress(ctx, s.ID, *allowing("b.example"))
	if err != nil || hosts(row) != "b.example forge-token.example.org other.example.org" || row.Env["KEY"] != s.Env["KEY"] || len(row.Secrets) != 2 {
		t.Errorf("%s %v %v", hosts(row), row.Env, err)
	}
	// A rule cannot pretend to be of a secret.
	fake := allowing("evil.example")
	fake.Rules[0].Source = "secret:other"
	if row, err = o.Policies.SetEgress(ctx, s.ID, *fake); err != nil || hosts(row) != "forge-token.example.org other.example.org" {
		t.Errorf("%s %v", hosts(row), err)
	}
}

// TestSecretsOfForks: a child has the placeholders of its parent, and may use what it was granted itself.
func TestSecretsOfForks(t *testing.T) {
	o := newOutside(t, nil)
	ctx := t.Context()
	s := o.create(t, api.CreateSandbox{Isolation: "fake", Egress: allowing("a.example"), Secrets: []api.SecretGrant{{Name: "one"}, {Name: "two"}}})
	fork := func(req api.ForkSandbox) api.Sandbox {
		t.Helper()
		f, err := o.Forker.Fork(ctx, s.ID, req)
		if err != nil || f.Children[0].Sandbox == nil {
			t.Fatalf("%+v, %v", f, err)
		}
		return *f.Children[0].Sandbox
	}
	for name, c := range map[string]struct {
		req     api.ForkSandbox
		secrets int
		hosts   string
	}{
		"none":                   {api.ForkSandbox{}, 0, "a.example"},
		"one":                    {api.ForkSandbox{Secrets: []string{"two"}}, 1, "a.example two.example.org"},
		"twice":                  {api.ForkSandbox{Secrets: []string{"two", "two"}}, 1, "a.example two.example.org"},
		"with another policy":    {api.ForkSandbox{Secrets: []string{"one"}, Egress: allowing("b.example")}, 1, "b.example one.example.org"},
		"none in another policy": {api.ForkSandbox{Egress: allowing("b.example")}, 0, "b.example"},
	} {
		child := fork(c.req)
		if len(child.Secrets) != c.secrets || hosts(child) != c.hosts || child.Env["TWO"] != s.Env["TWO"] {
			t.Errorf("%s: %+v, %s, %v", name, child.Secrets, hosts(child), child.Env)
		}
	}
	_, err := o.Forker.Fork(ctx, s.ID, api.ForkSandbox{Secrets: []string{"three"}})
	if api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), "three") {
		t.Errorf("a secret that the parent does not have: %v", err)
	}
	// A child cannot pass on what it was not granted.
	child := fork(api.ForkSandbox{Secrets: []string{"one"}})
	if _, err := o.Forker.Fork(ctx, child.ID, api.ForkSandbox{Secrets: []string{"two"}}); api.KindOf(err) != api.KindInvalid {
		t.Errorf("a secret of the grandparent: %v", err)
	}
}

func TestSecretsRefused(t *testing.T) {
	o := newOutside(t, nil)
	for name, c := range map[string]struct {
		req  api.CreateSandbox
		kind api.Kind
	}{
		"unknown":              {api.CreateSandbox{Secrets: []api.SecretGrant{{Name: "unknown"}}}, api.KindNotFound},
		"no name":              {api.CreateSandbox{Secrets: []api.SecretGrant{{Name: "A b"}}}, api.KindInvalid},
		"the same variable":    {api.CreateSandbox{Secrets: []api.SecretGrant{{Name: "a"}, {Name: "b", Env: "A"}}}, api.KindInvalid},
		"a variable that is":   {api.CreateSandbox{Secrets: []api.SecretGrant{{Name: "a"}}, Env: map[string]string{"A": "x"}}, api.KindInvalid},
		"the control":          {api.CreateSandbox{Secrets: []api.SecretGrant{{Name: "a"}}, Env: map[string]string{"B": "x"}}, ""},
		"more than a sandbox ": {api.CreateSandbox{Secrets: make([]api.SecretGrant, api.MaxSecretGrants+1)}, api.KindInvalid},
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
}
