package server

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/egress/broker"
)

// kept are the secrets of a test, by account and name.
type kept struct {
	mu  sync.Mutex
	all map[string]secrets.Secret
}

func (k *kept) Lookup(_ context.Context, account, name string) (secrets.Secret, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	row, ok := k.all[account+"/"+name]
	if !ok {
		return row, api.Errorf(api.KindNotFound, "no secret %s", name)
	}
	return row, nil
}

func (k *kept) Value(context.Context, string, string) (string, error)  { return "a-value", nil }
func (k *kept) Record(context.Context, secrets.Use)                    {}
func (k *kept) Rotated(_ context.Context, account, name, token string) {}

func TestSecrets(t *testing.T) {
	header := secrets.Place{Kind: secrets.InHeader, Name: "Authorization"}
	k := &kept{all: map[string]secrets.Secret{
		"ada/crm": {Name: "crm", Bindings: []secrets.Binding{
			{Host: "api.example.org", Methods: []string{"GET"}, Paths: []string{"/v1/**"}, In: header},
			{Scheme: "http", Host: "old.example.org", In: header},
		}},
		"ada/forge": {Name: "forge", Bindings: []secrets.Binding{
			{Host: "git.example.org", Port: 8443, In: secrets.Place{Kind: secrets.InBasic}, Git: &secrets.Git{Repository: "/o/r.git", Fetch: true}},
		}},
	}}
	s := New(Config{Secrets: k})
	rules, env, err := s.Secrets(t.Context(), "ada", []api.SecretGrant{{Name: "crm"}, {Name: "forge", Env: "TOKEN"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rules {
		got = append(got, strings.Join(append([]string{r.Source, string(r.Action), r.Host + ":" + r.Ports, strings.Join(r.Methods, ",")}, r.Paths...), " "))
	}
	want := []string{
		"crm allow api.example.org:443 GET /v1/**",
		"crm allow old.example.org:80 ",
		"forge allow git.example.org:8443  /o/r/** /o/r.git/**",
	}
	if !slices.Equal(got, want) {
		t.Errorf("rules:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !broker.ValidPlaceholder(env["CRM"]) || !broker.ValidPlaceholder(env["TOKEN"]) || env["CRM"] == env["TOKEN"] {
		t.Errorf("placeholders %q, %q", env["CRM"], env["TOKEN"])
	}
	helper := ""
	for name, value := range env {
		if value == "credential.https://git.example.org:8443/o/r.helper" {
			helper = env[strings.Replace(name, "KEY", "VALUE", 1)]
		}
	}
	if !strings.Contains(helper, `"$TOKEN"`) {
		t.Errorf("git's helper is %q: %v", helper, slices.Sorted(maps.Values(env)))
	}
	// Each sandbox has placeholders of its own.
	if _, other, err := s.Secrets(t.Context(), "ada", []api.SecretGrant{{Name: "crm"}}); err != nil || other["CRM"] == env["CRM"] || other["GIT_CONFIG_COUNT"] != "" {
		t.Errorf("%v %v", other, err)
	}
	for name, c := range map[string]struct {
		server  *Server
		account string
		kind    api.Kind
	}{
		"of another account": {s, "bob", api.KindNotFound},
		"without a store":    {New(Config{}), "ada", api.KindUnsupported},
	} {
		if _, _, err := c.server.Secrets(t.Context(), c.account, []api.SecretGrant{{Name: "crm"}}); api.KindOf(err) != c.kind {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHolds: what a sandbox may use is what its row grants, with the placeholder that it was given.
func TestHolds(t *testing.T) {
	p, q := broker.NewPlaceholder(), broker.NewPlaceholder()
	row := api.Sandbox{Secrets: []api.SecretGrant{{Name: "a"}, {Name: "b", Env: "X"}, {Name: "gone"}, {Name: "other"}}, Env: map[string]string{"A": p, "X": q, "OTHER": "overwritten", "C": broker.NewPlaceholder()}}
	if got := holds(row); !slices.Equal(got, []held{{p, "a"}, {q, "b"}}) {
		t.Errorf("%v", got)
	}
	row.Secrets = nil // a fork that was granted nothing
	if got := holds(row); got != nil {
		t.Errorf("%v", got)
	}
}
