package access

import (
	"context"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/quota"
)

// Keys verifies API keys.
type Keys interface {
	// Verify returns the key with a secret. The error is KindUnauthenticated, with the same
	// message for every invalid key.
	Verify(ctx context.Context, presented string) (api.Key, error)
	// Get returns the key with an ID, with the errors of Verify.
	Get(ctx context.Context, id api.KeyID) (api.Key, error)
}

// Authenticator finds the principal of an API key.
type Authenticator struct {
	keys  Keys
	rates *quota.Rates
}

// NewAuthenticator creates an Authenticator that limits the rate of each key.
func NewAuthenticator(keys Keys, rates *quota.Rates) *Authenticator {
	return &Authenticator{keys, rates}
}

// Authenticate returns the principal of an API key. It verifies the key for each request, so
// that a revoked key is rejected at once. The error is KindExhausted above the key's rate,
// or while too many of its requests are in service.
func (p *Authenticator) Authenticate(ctx context.Context, presented string) (api.Principal, error) {
	k, err := p.keys.Verify(ctx, presented)
	if err != nil {
		return api.Principal{}, err
	}
	return p.admit(ctx, k)
}

// AuthenticateKey is Authenticate for a browser that was signed in with a key.
func (p *Authenticator) AuthenticateKey(ctx context.Context, id api.KeyID) (api.Principal, error) {
	k, err := p.keys.Get(ctx, id)
	if err != nil {
		return api.Principal{}, err
	}
	return p.admit(ctx, k)
}

// admit counts a request of a key.
func (p *Authenticator) admit(ctx context.Context, k api.Key) (api.Principal, error) {
	who := api.Principal{Account: k.Account, Key: k.ID, Role: k.Role, Ceilings: k.Ceilings, Isolation: k.Isolation, ExpiresAt: k.ExpiresAt}
	if err := p.rates.Request(who); err != nil {
		return api.Principal{}, err
	}
	if err := quota.CountRequest(ctx, who.Account, who.Key); err != nil {
		return api.Principal{}, err
	}
	return who, nil
}

// caller returns the principal of the context, see [quota.Caller].
func caller(ctx context.Context) (api.Principal, error) { return quota.Caller(ctx) }

// administrator refuses callers that are not admins. what names the operation.
func administrator(ctx context.Context, what string) error {
	p, err := caller(ctx)
	if err == nil && p.Role != api.RoleAdmin {
		err = denied(what)
	}
	return err
}

func denied(what string) error {
	return api.Errorf(api.KindDenied, "%s is allowed for the operator only: this API key is a user's", what).
		WithHint("use the daemon's socket on its machine, or a key with the role %s", api.RoleAdmin)
}

// notFound is the error for what does not exist or belongs to another account. The message is
// the same as the store's.
func notFound(what, id string) error {
	return api.Errorf(api.KindNotFound, "unknown %s %.64q", what, id)
}

// checkModels refuses models that are files of the daemon's host, unless the caller uses the
// daemon's socket: only the daemon's user can open it, and can read these files anyway.
func checkModels(p api.Principal, models ...string) error {
	if p.Key == "" && p.Role == api.RoleAdmin {
		return nil
	}
	for _, m := range models {
		if strings.HasPrefix(m, "replay:") {
			return api.Errorf(api.KindDenied, "the model %.60q is a file on the daemon's machine, which an API key cannot use", m).
				WithHint("use the daemon's own socket on its machine")
		}
	}
	return nil
}

// ifAllowed calls a guarded service unless its guard returned an error.
func ifAllowed[Out any](err error, call func() (Out, error)) (v Out, _ error) {
	if err != nil {
		return v, err
	}
	return call()
}

// RevokeSecret takes a secret from a sandbox of the caller's. It opens nothing, so a key with a
// ceiling may do it for the sandboxes of other keys of its account too.
func (e *Egress) RevokeSecret(ctx context.Context, id api.SandboxID, name string) (api.Sandbox, error) {
	p, err := caller(ctx)
	if err == nil {
		_, err = e.cfg.Sandboxes.get(ctx, p, id)
	}
	return ifAllowed(err, func() (api.Sandbox, error) { return e.cfg.Policies.RevokeSecret(ctx, id, name) })
}
