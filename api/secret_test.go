package api_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

func TestCheckSecretGrants(t *testing.T) {
	many := func(n int) (all []api.SecretGrant) {
		for i := range n {
			all = append(all, api.SecretGrant{Name: fmt.Sprint("s", i)})
		}
		return all
	}
	end := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		grants []api.SecretGrant
		want   string
	}{
		"none":                     {nil, ""},
		"the most":                 {many(api.MaxSecretGrants), ""},
		"more":                     {many(api.MaxSecretGrants + 1), "65 secrets"},
		"a name in upper case":     {[]api.SecretGrant{{Name: "TOKEN"}}, "not the name of a secret"},
		"the reserved name":        {[]api.SecretGrant{{Name: "uses"}}, "not the name of a secret"},
		"one secret, two names":    {[]api.SecretGrant{{Name: "a"}, {Name: "a", Env: "B"}}, "there twice"},
		"the shortest lifetime":    {[]api.SecretGrant{{Name: "a", LifetimeMS: 1000}}, ""},
		"the longest lifetime":     {[]api.SecretGrant{{Name: "a", LifetimeMS: api.MaxSecretLifetime.Milliseconds()}}, ""},
		"a shorter lifetime":       {[]api.SecretGrant{{Name: "a", LifetimeMS: 999}}, "lifetime of 999 ms"},
		"a longer lifetime":        {[]api.SecretGrant{{Name: "a", LifetimeMS: api.MaxSecretLifetime.Milliseconds() + 1}}, "lifetime"},
		"a negative lifetime":      {[]api.SecretGrant{{Name: "a", LifetimeMS: -1}}, "lifetime"},
		"an end":                   {[]api.SecretGrant{{Name: "a", EndsAt: &end}}, "has an end"},
		"one that was taken":       {[]api.SecretGrant{{Name: "a", Revoked: true}}, "has an end"},
		"two secrets, one name":    {[]api.SecretGrant{{Name: "a-b"}, {Name: "a.b"}}, "two secrets set"},
		"two secrets, one by name": {[]api.SecretGrant{{Name: "a"}, {Name: "b", Env: "A"}}, "two secrets set"},
		"a variable with =":        {[]api.SecretGrant{{Name: "a", Env: "A=B"}}, "environment variable"},
		"a long variable":          {[]api.SecretGrant{{Name: "a", Env: strings.Repeat("x", api.MaxLabelName+1)}}, "environment variable"},
	} {
		err := api.CheckSecretGrants(c.grants)
		if c.want == "" && err != nil || c.want != "" && (api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for _, g := range []api.SecretGrant{{}, {EndsAt: &end}} {
		if g.Ended(end.Add(-1)) || g.Ended(end) != (g.EndsAt != nil) {
			t.Errorf("%+v has ended", g)
		}
	}
	if g := (api.SecretGrant{Revoked: true}); !g.Ended(end) {
		t.Error("one that was taken has not ended")
	}
	if v := (api.SecretGrant{Name: "forge.token-1"}).Variable(); v != "FORGE_TOKEN_1" {
		t.Errorf("the variable is %s", v)
	}
}

// TestSetSecretIsNotLogged formats a request in the ways of loggers.
func TestSetSecretIsNotLogged(t *testing.T) {
	s := secrets.Set{Value: "canary-value", From: "control"}
	var text, doc strings.Builder
	slog.New(slog.NewTextHandler(&text, nil)).Info("set", "request", s)
	slog.New(slog.NewJSONHandler(&doc, nil)).Info("set", "request", s)
	for _, out := range []string{fmt.Sprint(s), fmt.Sprintf("%+v", s), fmt.Sprintf("%s", s), text.String(), doc.String()} {
		if strings.Contains(out, "canary") || !strings.Contains(out, "secret from value") {
			t.Errorf("logged as %s", out)
		}
	}
}
