package sandboxes

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"hortus.dev/api"
)

// TestInherited: a copy has the policy that its sandbox has now, and the grants that have not ended.
func TestInherited(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ends := func(after time.Duration) *time.Time {
		end := now.Add(after)
		return &end
	}
	rule := func(secret string) api.HeaderRule {
		return api.HeaderRule{Host: "example.com", Headers: map[string]string{"X-Key": "is ${secret:" + secret + "}"}}
	}
	asked := &api.EgressPolicy{Rules: []api.EgressRule{{Action: api.EgressAllow, Host: "example.com"}, {Action: api.EgressAllow, Host: "example.org"}}}
	narrow := &api.EgressPolicy{Rules: asked.Rules[:1], Headers: []api.HeaderRule{rule("head")}}
	box := api.CreateSandbox{
		Egress: asked, Headers: []api.HeaderRule{rule("head"), rule("other")}, Labels: map[string]string{"of": "test"},
		Secrets: []api.SecretGrant{{Name: "stays"}, {Name: "long", Env: "LONG", LifetimeMS: 60_000}, {Name: "short", LifetimeMS: 1000}, {Name: "nearly", LifetimeMS: 1000}, {Name: "taken"}, {Name: "foreign"}},
	}
	held := []api.SecretGrant{
		{Name: "stays"}, {Name: "long", Env: "LONG", LifetimeMS: 60_000, EndsAt: ends(20 * time.Second)}, {Name: "short", LifetimeMS: 1000, EndsAt: ends(-time.Second)},
		{Name: "nearly", LifetimeMS: 1000, EndsAt: ends(time.Millisecond)}, {Name: "taken", Revoked: true}, {Name: "unasked"},
	}
	left := []api.SecretGrant{{Name: "stays"}, {Name: "long", Env: "LONG", LifetimeMS: 20_000}}
	for name, c := range map[string]struct {
		of      api.Sandbox
		egress  *api.EgressPolicy
		headers []api.HeaderRule
		secrets []api.SecretGrant
		usable  []string
	}{
		"as it was created": {api.Sandbox{Egress: api.EgressRules, EgressPolicy: asked, Secrets: held}, asked, nil, left, []string{"long", "stays"}},
		"narrowed":          {api.Sandbox{Egress: api.EgressRules, EgressPolicy: narrow, Secrets: held}, narrow, nil, left, []string{"head", "long", "stays"}},
		"nothing":           {api.Sandbox{Egress: api.EgressNone}, &api.EgressPolicy{}, nil, nil, nil},
		"the host's":        {api.Sandbox{Egress: api.EgressHost, Secrets: held[:1]}, asked, box.Headers, left[:1], []string{"stays"}},
	} {
		got := inherit(box, c.of, now)
		if !reflect.DeepEqual(got.Egress, c.egress) || !reflect.DeepEqual(got.Headers, c.headers) || !reflect.DeepEqual(got.Secrets, c.secrets) || got.Labels["of"] != "test" {
			t.Errorf("%s: %+v", name, got)
		}
		if names := usable(box, c.of, now); !slices.Equal(names, c.usable) {
			t.Errorf("%s: usable are %q", name, names)
		}
	}
	if len(box.Secrets) != 6 || box.Secrets[1].LifetimeMS != 60_000 || len(box.Headers) != 2 || len(asked.Rules) != 2 {
		t.Errorf("the request was changed: %+v", box)
	}
}
