package access

import (
	"context"
	"slices"

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
	if len(req.Bindings) == 0 && !req.ForHeaders && p.Role != api.RoleAdmin {
		return secrets.Secret{}, api.Errorf(api.KindInvalid, "secret %s has no bindings: only an admin sets secrets that the daemon itself uses", name).
			WithHint("bind it to the requests that it may be used in")
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

// Policies is the part of the manager that changes the policies of sandboxes.
type Policies interface {
	SetEgress(ctx context.Context, id api.SandboxID, p api.EgressPolicy) (api.Sandbox, error)
	AddEgressRules(ctx context.Context, id api.SandboxID, rules []api.EgressRule) (api.Sandbox, error)
	RevokeSecret(ctx context.Context, id api.SandboxID, name string) (api.Sandbox, error)
}

// Decisions lists the decisions about outgoing connections, the newest first. Account "" is
// everybody.
type Decisions interface {
	EgressPage(ctx context.Context, account string, f api.EgressFilter, p api.PageRequest) (rows []api.EgressDecision, next string, err error)
}

// Asks are the connections that wait for a person. Account "" is everybody.
type Asks interface {
	// List returns the oldest first.
	List(account string) []api.EgressAsk
	Answer(ctx context.Context, account, id string, action api.EgressAction, remember bool) error
}

// EgressConfig is what policies, decisions and questions are guarded with. Without Asks there are
// no questions; all other fields are required.
type EgressConfig struct {
	Sandboxes *Sandboxes
	Policies  Policies
	Decisions Decisions
	Asks      Asks
}

// Egress guards what sandboxes may connect to.
type Egress struct{ cfg EgressConfig }

// NewEgress guards policies.
func NewEgress(cfg EgressConfig) *Egress { return &Egress{cfg} }

// may reports whether the caller may change the policy of a sandbox. A key with a ceiling may
// only do so for sandboxes that have this ceiling: those that were created with the key. With
// another one it could open to itself what its own ceiling denies.
func (e *Egress) may(ctx context.Context, id api.SandboxID) error {
	p, err := caller(ctx)
	if err != nil {
		return err
	}
	row, err := e.cfg.Sandboxes.get(ctx, p, id)
	if err == nil && p.Ceilings.Egress != nil && row.Key != p.Key {
		err = api.Errorf(api.KindDenied, "sandbox %s was created with another API key; this key has an egress ceiling and cannot change its policy", id).
			WithHint("use the key that created it, or one without an egress ceiling")
	}
	return err
}

// SetEgress replaces the policy of a sandbox of the caller's.
func (e *Egress) SetEgress(ctx context.Context, id api.SandboxID, p api.EgressPolicy) (api.Sandbox, error) {
	return ifAllowed(e.may(ctx, id), func() (api.Sandbox, error) { return e.cfg.Policies.SetEgress(ctx, id, p) })
}

// AddEgressRules puts rules before those of a sandbox of the caller's.
func (e *Egress) AddEgressRules(ctx context.Context, id api.SandboxID, req api.AddEgressRules) (api.Sandbox, error) {
	return ifAllowed(e.may(ctx, id), func() (api.Sandbox, error) { return e.cfg.Policies.AddEgressRules(ctx, id, req.Rules) })
}

// EgressPage returns one page of the decisions about the caller's sandboxes.
func (e *Egress) EgressPage(ctx context.Context, f api.EgressFilter, page api.PageRequest) ([]api.EgressDecision, string, error) {
	p, err := caller(ctx)
	if err != nil {
		return nil, "", err
	}
	return e.cfg.Decisions.EgressPage(ctx, scope(p), f, page)
}

// EgressAsks returns the connections of the caller's sandboxes that wait for a person, the oldest
// first.
func (e *Egress) EgressAsks(ctx context.Context) ([]api.EgressAsk, error) {
	p, err := caller(ctx)
	if err != nil || e.cfg.Asks == nil {
		return nil, err
	}
	return e.cfg.Asks.List(scope(p)), nil
}

// AnswerEgressAsk answers a connection of a sandbox of the caller's, on the terms of SetEgress.
func (e *Egress) AnswerEgressAsk(ctx context.Context, id string, answer api.AnswerEgressAsk) error {
	p, err := caller(ctx)
	if err != nil {
		return err
	}
	if e.cfg.Asks == nil {
		return notFound("egress question", id)
	}
	if p.Ceilings.Egress != nil {
		all := e.cfg.Asks.List(scope(p))
		i := slices.IndexFunc(all, func(a api.EgressAsk) bool { return a.ID == id })
		if i < 0 {
			return notFound("egress question", id)
		}
		if err := e.may(ctx, all[i].Decision.Sandbox); err != nil {
			return err
		}
	}
	return e.cfg.Asks.Answer(ctx, scope(p), id, answer.Action, answer.Remember)
}
