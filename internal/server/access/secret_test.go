package access_test

import (
	"context"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/server/access"
)

// noted keeps what reaches it.
type noted struct{ asked string }

func (s *noted) Set(_ context.Context, account, name string, _ secrets.Set) (secrets.Secret, error) {
	s.asked = "set " + account + "/" + name
	return secrets.Secret{}, nil
}
func (s *noted) Remove(_ context.Context, account, name string) (secrets.Secret, error) {
	s.asked = "remove " + account + "/" + name
	return secrets.Secret{}, nil
}
func (s *noted) Get(_ context.Context, account, name string) (secrets.Secret, error) {
	s.asked = "get " + account + "/" + name
	return secrets.Secret{}, nil
}
func (s *noted) Page(_ context.Context, account string, _ api.PageRequest) ([]secrets.Secret, string, error) {
	s.asked = "page " + account + "/"
	return nil, "", nil
}
func (s *noted) Uses(_ context.Context, account string, f secrets.UseFilter, _ api.PageRequest) ([]secrets.Use, string, error) {
	s.asked = "uses " + account + "/" + f.Secret
	return nil, "", nil
}

// TestSecretsAreOnesOwn: nobody reaches the secrets of another account, and no API key chooses
// what is read on the daemon's machine.
func TestSecretsAreOnesOwn(t *testing.T) {
	ctx := func(p api.Principal) context.Context { return api.WithPrincipal(t.Context(), p) }
	callers := map[string]api.Principal{
		"a": {Role: api.RoleUser, Account: "a", Key: "k"}, "b": {Role: api.RoleAdmin, Account: "b", Key: "k"}, "": api.Operator(),
	}
	for account, p := range callers {
		s := &noted{}
		g := access.NewSecrets(s)
		for want, do := range map[string]func() error{
			"set " + account + "/n":    func() error { _, err := g.Set(ctx(p), "n", secrets.Set{Bindings: []secrets.Binding{{}}}); return err },
			"remove " + account + "/n": func() error { _, err := g.Remove(ctx(p), "n"); return err },
			"get " + account + "/n":    func() error { _, err := g.Get(ctx(p), "n"); return err },
			"page " + account + "/":    func() error { _, _, err := g.Page(ctx(p), api.PageRequest{}); return err },
			"uses " + account + "/n": func() error {
				_, _, err := g.Uses(ctx(p), secrets.UseFilter{Secret: "n"}, api.PageRequest{})
				return err
			},
		} {
			s.asked = ""
			if err := do(); err != nil || s.asked != want {
				t.Errorf("%q, %v; want %q", s.asked, err, want)
			}
		}
		for source, machine := range map[secrets.Source]bool{"": false, secrets.Stored: false, secrets.Variable: true, secrets.File: true, secrets.Command: true, "unknown": true} {
			s.asked = ""
			_, err := g.Set(ctx(p), "n", secrets.Set{Source: source, Bindings: []secrets.Binding{{}}})
			if denied := machine && p.Key != ""; denied != (api.KindOf(err) == api.KindDenied) || denied != (s.asked == "") || !denied && err != nil {
				t.Errorf("source %q of account %q: %q, %v", source, account, s.asked, err)
			}
		}
	}
}

// TestSecretsForTheDaemonNeedAnAdmin: a secret without bindings is used by the daemon alone, for repositories, which only admins connect.
func TestSecretsForTheDaemonNeedAnAdmin(t *testing.T) {
	for role, want := range map[api.Role]api.Kind{api.RoleUser: api.KindInvalid, api.RoleAdmin: ""} {
		s := &noted{}
		_, err := access.NewSecrets(s).Set(api.WithPrincipal(t.Context(), api.Principal{Role: role, Account: "a", Key: "k"}), "n", secrets.Set{Value: "12345678"})
		if (err != nil) != (want != "") || err != nil && api.KindOf(err) != want || (s.asked != "") != (want == "") {
			t.Errorf("%s: %v, asked %q", role, err, s.asked)
		}
	}
}
