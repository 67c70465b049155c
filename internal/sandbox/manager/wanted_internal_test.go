package manager

import (
	"context"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/choice"
)

// backend reports what a test says that it can.
type backend struct {
	sandbox.Unsupported
	name     string
	isolates bool
	starts   bool
}

func (b backend) Name() string                       { return b.name }
func (b backend) Capabilities() sandbox.Capabilities { return sandbox.Capabilities{} }
func (b backend) Probe(context.Context) api.BackendReport {
	return api.BackendReport{Backend: b.name, Abilities: []api.Ability{
		{Capability: api.CapStart, OK: b.starts, Reason: "the engine does not run", Fix: "systemctl start engine"}, {Capability: api.CapIsolated, OK: b.isolates}, {Capability: api.CapPrograms, OK: true},
	}}
}
func (backend) Validate(context.Context, sandbox.Spec) error { return nil }
func (backend) Start(context.Context, sandbox.Spec) (sandbox.Machine, error) {
	return nil, api.Errorf(api.KindInternal, "it is not started")
}
func (backend) Orphans(context.Context) ([]api.SandboxID, error) { return nil, nil }
func (backend) Reclaim(context.Context, api.SandboxID) (api.Proof, error) {
	return api.Proof{}, nil
}

// TestOrderOfDefaults: what a request names comes first, then the defaults of the repository, the template, the key and the daemon.
// A default that cannot be had is refused, and a key never gets a backend that its ceiling excludes, whoever names it.
func TestOrderOfDefaults(t *testing.T) {
	all := []sandbox.Backend{
		backend{name: "strong", isolates: true, starts: true}, backend{name: "middle", isolates: true, starts: true},
		backend{name: "weak", isolates: true, starts: true}, backend{name: "stopped", isolates: true}, backend{name: "none", starts: true},
	}
	only := func(names ...string) api.Ceilings { return api.Ceilings{Isolations: names} }
	type defaults struct{ request, repository, template, key, daemon string }
	for name, c := range map[string]struct {
		d        defaults
		ceilings api.Ceilings
		user     bool
		want     string // the backend, or the kind of the error
		why      string // a part of the reason or of the error
	}{
		"nothing":                            {want: "strong", why: "strongest isolation available"},
		"daemon":                             {d: defaults{daemon: "weak"}, want: "weak", why: "default of this daemon (sandbox.isolation)"},
		"key before daemon":                  {d: defaults{key: "middle", daemon: "weak"}, want: "middle", why: "default of the API key"},
		"template before key":                {d: defaults{template: "weak", key: "middle", daemon: "middle"}, want: "weak", why: "default of template py"},
		"repository before template":         {d: defaults{repository: "middle", template: "weak", key: "weak", daemon: "weak"}, want: "middle", why: "default of repository app"},
		"request before all":                 {d: defaults{request: "weak", template: "middle", key: "middle", daemon: "middle"}, want: "weak", why: "requested by name"},
		"auto requested":                     {d: defaults{request: "auto", template: "weak", key: "weak", daemon: "weak"}, want: "strong", why: "strongest"},
		"auto of a key before the daemon's":  {d: defaults{key: "auto", daemon: "weak"}, want: "strong", why: "strongest"},
		"daemon's auto":                      {d: defaults{daemon: "auto"}, want: "strong", why: "strongest"},
		"default that does not run":          {d: defaults{key: "stopped"}, want: "unisolated", why: `isolation "stopped" is the default of the API key`},
		"request that does not run":          {d: defaults{request: "stopped", key: "weak"}, want: "unisolated", why: "this host cannot run the stopped backend"},
		"default that is unknown":            {d: defaults{daemon: "odd"}, want: "invalid", why: `isolation "odd" is the default of this daemon`},
		"ceiling and auto":                   {ceilings: only("middle", "weak"), user: true, want: "middle", why: "strong is not allowed for this API key"},
		"ceiling and request":                {d: defaults{request: "strong"}, ceilings: only("weak"), user: true, want: "denied", why: "this API key may not use the isolation \"strong\", only weak"},
		"ceiling and repository":             {d: defaults{repository: "strong"}, ceilings: only("weak"), user: true, want: "denied", why: "default of repository app"},
		"ceiling and template":               {d: defaults{template: "strong"}, ceilings: only("weak"), user: true, want: "denied", why: "default of template py"},
		"ceiling and daemon":                 {d: defaults{daemon: "strong"}, ceilings: only("weak"), user: true, want: "denied", why: "default of this daemon"},
		"ceiling that nothing can keep":      {ceilings: only("none"), user: true, want: "denied", why: "auto chooses among what this API key may use, and cannot choose none here"},
		"user, daemon without isolation":     {d: defaults{daemon: "none"}, user: true, want: "denied", why: "without isolation"},
		"user, template without isolation":   {d: defaults{template: "none"}, user: true, want: "denied", why: "without isolation"},
		"user, request without isolation":    {d: defaults{request: "none"}, user: true, want: "denied", why: "without isolation"},
		"control: operator, no isolation":    {d: defaults{daemon: "none"}, want: "none", why: "default of this daemon"},
		"control: a ceiling that allows it":  {d: defaults{repository: "strong"}, ceilings: only("weak", "strong"), user: true, want: "strong", why: "default of repository app"},
		"control: no ceiling, with template": {d: defaults{template: "strong"}, user: true, want: "strong", why: "default of template py"},
	} {
		r := Planner{chooser: choice.New(all), isolation: c.d.daemon, imageIsolation: func(template string) string {
			if template != "py" {
				t.Errorf("%s: asked for template %q", name, template)
			}
			return c.d.template
		}}
		p := api.Principal{Role: api.RoleAdmin, Isolation: c.d.key, Ceilings: c.ceilings}
		if c.user {
			p.Role = api.RoleUser
		}
		req := api.CreateSandbox{Isolation: c.d.request, Template: "py", KeyIsolation: p.KeyIsolation()}
		if c.d.repository != "" {
			req.Isolation, req.IsolationFrom = c.d.repository, "app"
		}
		b, _, why, err := r.chooser.Within(t.Context(), r.wanted(req), req.KeyIsolation)
		got := string(api.KindOf(err))
		if err == nil {
			got = b.Name()
		} else {
			why = err.Error()
		}
		if got != c.want || !strings.Contains(why, c.why) {
			t.Errorf("%s: %s (%s); want %s (%s)", name, got, why, c.want, c.why)
		}
		if hint := api.HintOf(err); c.d.key == "stopped" && c.d.request == "" && (!strings.Contains(hint, "systemctl start engine") || !strings.Contains(hint, "hortus key create")) {
			t.Errorf("%s: the hint has no fix, or does not say how to change the default: %s", name, hint)
		}
	}
}
