package access_test

import (
	"context"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/door/access"
)

// secrets notes what reaches it.
type secrets struct{ asked string }

func (s *secrets) Set(_ context.Context, account, name string, _ api.SetSecret) (api.Secret, error) {
	s.asked = "set " + account + "/" + name
	return api.Secret{}, nil
}
func (s *secrets) Remove(_ context.Context, account, name string) (api.Secret, error) {
	s.asked = "remove " + account + "/" + name
	return api.Secret{}, nil
}
func (s *secrets) Get(_ context.Context, account, name string) (api.Secret, error) {
	s.asked = "get " + account + "/" + name
	return api.Secret{}, nil
}
func (s *secrets) Page(_ context.Context, account string, _ api.PageRequest) ([]api.Secret, string, error) {
	s.asked = "page " + account + "/"
	return nil, "", nil
}
func (s *secrets) Uses(_ context.Context, account string, f api.SecretUseFilter, _ api.PageRequest) ([]api.SecretUse, string, error) {
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
		s := &secrets{}
		g := access.NewSecrets(s)
		for want, do := range map[string]func() error{
			"set " + account + "/n":    func() error { _, err := g.Set(ctx(p), "n", api.SetSecret{}); return err },
			"remove " + account + "/n": func() error { _, err := g.Remove(ctx(p), "n"); return err },
			"get " + account + "/n":    func() error { _, err := g.Get(ctx(p), "n"); return err },
			"page " + account + "/":    func() error { _, _, err := g.Page(ctx(p), api.PageRequest{}); return err },
			"uses " + account + "/n": func() error {
				_, _, err := g.Uses(ctx(p), api.SecretUseFilter{Secret: "n"}, api.PageRequest{})
				return err
			},
		} {
			s.asked = ""
			if err := do(); err != nil || s.asked != want {
				t.Errorf("%q, %v; want %q", s.asked, err, want)
			}
		}
		for source, machine := range map[api.SecretSource]bool{"": false, api.SecretStored: false, api.SecretVariable: true, api.SecretFile: true, api.SecretCommand: true, "unknown": true} {
			s.asked = ""
			_, err := g.Set(ctx(p), "n", api.SetSecret{Source: source})
			if denied := machine && p.Key != ""; denied != (api.KindOf(err) == api.KindDenied) || denied != (s.asked == "") || !denied && err != nil {
				t.Errorf("source %q of account %q: %q, %v", source, account, s.asked, err)
			}
		}
	}
}
