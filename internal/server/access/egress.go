package access

import (
	"context"
	"slices"

	"hortus.dev/api"
)

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
