package outgoing

import (
	"slices"
	"testing"

	"hortus.dev/api"
)

// TestCheckGrades: a policy is refused unless the report says who enforces all of it.
func TestCheckGrades(t *testing.T) {
	names := api.EgressPolicy{Rules: []api.EgressRule{{Action: api.EgressAllow, Host: "example.org", Ports: "443", Class: api.EgressTCP}, {Action: api.EgressDeny, Host: "*"}}}
	with := func(edit func(*Resolved)) Resolved {
		p := names
		p.Rules = slices.Clone(names.Rules)
		r := Resolved{Policy: &p, Requested: true}
		edit(&r)
		return r
	}
	plain := with(func(*Resolved) {})
	host := map[string]Resolved{
		"a secret":    with(func(r *Resolved) { r.Secrets = []api.SecretGrant{{Name: "key"}} }),
		"headers":     with(func(r *Resolved) { r.Policy.Headers = []api.HeaderRule{{Host: "example.org"}} }),
		"a question":  with(func(r *Resolved) { r.Policy.Ask = true }),
		"connections": with(func(r *Resolved) { r.Policy.MaxConnections = 1 }),
		"bytes":       with(func(r *Resolved) { r.Policy.MaxBytes = 1 }),
		"a ceiling":   with(func(r *Resolved) { r.Ceiling = &names }),
		"web":         with(func(r *Resolved) { r.Policy.Rules[0].Class = api.EgressWeb }),
		"passthrough": with(func(r *Resolved) { r.Policy.Rules[0].Class = api.EgressPassthrough }),
		"a method":    with(func(r *Resolved) { r.Policy.Rules[0].Methods = []string{"GET"} }),
		"a path":      with(func(r *Resolved) { r.Policy.Rules[0].Paths = []string{"/v1"} }),
		"private":     with(func(r *Resolved) { r.Policy.Rules[0].Private = true }),
	}
	report := func(ok bool, grade api.EgressGrade) api.BackendReport {
		return api.BackendReport{Backend: "b", Abilities: []api.Ability{
			{Capability: api.CapNoNetwork, OK: true}, {Capability: api.CapEgress, OK: ok, Grade: grade, Reason: "a reason"},
		}}
	}
	check := func(name string, r Resolved, report api.BackendReport, allowed bool) {
		t.Helper()
		err := r.Check(report)
		if allowed && err != nil || !allowed && api.KindOf(err) != api.KindUnsupported {
			t.Errorf("%s: %v, want allowed %v", name, err, allowed)
		}
	}
	check("names, by the host", plain, report(true, api.EgressByHost), true)
	check("names, by the engine", plain, report(true, api.EgressByEngine), true)
	check("names, by nobody", plain, report(true, api.EgressByNobody), false)
	check("names, by who does not say", plain, report(true, ""), false)
	check("names, by a grade of another version", plain, report(true, "kernel"), false)
	check("names, missing", plain, report(false, api.EgressByHost), false)
	check("nothing is opened", Resolved{Policy: &api.EgressPolicy{}, Requested: true}, report(false, api.EgressByNobody), true)
	for name, r := range host {
		check(name+", by the host", r, report(true, api.EgressByHost), true)
		check(name+", by the engine", r, report(true, api.EgressByEngine), false)
	}
}

// TestCommandEnvironment: only a sandbox without network is told not to try again, and a setting
// of its own has priority.
func TestCommandEnvironment(t *testing.T) {
	for _, c := range []struct {
		egress string
		own    string
		want   string
	}{
		{api.EgressNone, "", "0"},
		{api.EgressNone, "3", "3"},
		{api.EgressRules, "", ""},
		{api.EgressHost, "", ""},
	} {
		row := api.Sandbox{Egress: c.egress}
		if c.own != "" {
			row.Env = map[string]string{"PIP_RETRIES": c.own}
		}
		if got := CommandEnvironment(row)["PIP_RETRIES"]; got != c.want {
			t.Errorf("egress %s, own value %q: %q, want %q", c.egress, c.own, got, c.want)
		}
	}
}
