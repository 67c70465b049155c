package access

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// SecretService keeps the secrets of accounts; "" is the operator's own. It has no method that
// returns a value.
type SecretService interface {
	Set(ctx context.Context, account, name string, req secrets.Set) (secrets.Secret, error)
	Remove(ctx context.Context, account, name string) (secrets.Secret, error)
	Get(ctx context.Context, account, name string) (secrets.Secret, error)
	Page(ctx context.Context, account string, p api.PageRequest) ([]secrets.Secret, string, error)
	Uses(ctx context.Context, account string, f secrets.UseFilter, p api.PageRequest) ([]secrets.Use, string, error)
}

// Secrets guards secrets. Everybody, an admin too, has those of the own account only. A source other
// than a stored value is of the daemon's machine, so no API key sets it.
type Secrets struct{ s SecretService }

// NewSecrets guards secrets.
func NewSecrets(s SecretService) *Secrets { return &Secrets{s} }

// Set creates or replaces a secret of the caller's.
func (s *Secrets) Set(ctx context.Context, name string, req secrets.Set) (secrets.Secret, error) {
	p, err := caller(ctx)
	if err != nil {
		return secrets.Secret{}, err
	}
	if (p.Role != api.RoleAdmin || p.Key != "") && req.Source != "" && req.Source != secrets.Stored {
		return secrets.Secret{}, api.Errorf(api.KindDenied, "a secret from a variable, a file or a command of the daemon's machine cannot be set with an API key").
			WithHint("use the daemon's own socket on its machine, or store the value")
	}
	return s.s.Set(ctx, p.Account, name, req)
}

// Remove removes a secret of the caller's.
func (s *Secrets) Remove(ctx context.Context, name string) (secrets.Secret, error) {
	p, err := caller(ctx)
	if err != nil {
		return secrets.Secret{}, err
	}
	return s.s.Remove(ctx, p.Account, name)
}

// Get returns a secret of the caller's.
func (s *Secrets) Get(ctx context.Context, name string) (secrets.Secret, error) {
	p, err := caller(ctx)
	if err != nil {
		return secrets.Secret{}, err
	}
	return s.s.Get(ctx, p.Account, name)
}

// Page returns one page of the caller's secrets, the newest first.
func (s *Secrets) Page(ctx context.Context, page api.PageRequest) ([]secrets.Secret, string, error) {
	p, err := caller(ctx)
	if err != nil {
		return nil, "", err
	}
	return s.s.Page(ctx, p.Account, page)
}

// Uses returns one page of the uses of the caller's secrets, the newest first.
func (s *Secrets) Uses(ctx context.Context, f secrets.UseFilter, page api.PageRequest) ([]secrets.Use, string, error) {
	p, err := caller(ctx)
	if err != nil {
		return nil, "", err
	}
	return s.s.Uses(ctx, p.Account, f, page)
}
