package outgoing

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"hortus.dev/api"
)

// Edit changes what a sandbox may connect to and use. It returns what its row, which it gets, is
// to have.
type Edit func(ctx context.Context, p Policies, row api.Sandbox) (Resolved, error)

// ErrUnchanged is the error of an [Edit] that has nothing to change.
var ErrUnchanged = errors.New("there is nothing to change")

// EditPolicy replaces the policy of a sandbox by what change makes of it. The rules of its secrets
// are kept. Errors are those of [Policies.Resolve].
func EditPolicy(change func(api.EgressPolicy) api.EgressPolicy) Edit {
	return func(ctx context.Context, p Policies, row api.Sandbox) (Resolved, error) {
		old := policyOf(row)
		next := change(old)
		return p.Resolve(ctx, Request{Policy: &next, Ceiling: row.MaxEgress, Secrets: row.Secrets, Account: row.Account, Had: &old})
	}
}

func policyOf(row api.Sandbox) api.EgressPolicy {
	if row.EgressPolicy == nil {
		return api.EgressPolicy{}
	}
	return *row.EgressPolicy
}

// Revoke takes a secret from a sandbox, with the rules that are there for it. KindNotFound if the
// sandbox may not use it.
func Revoke(name string, now time.Time) Edit {
	return func(_ context.Context, _ Policies, row api.Sandbox) (Resolved, error) {
		i := slices.IndexFunc(row.Secrets, func(g api.SecretGrant) bool { return g.Name == name && !g.Revoked })
		if i < 0 {
			return Resolved{}, api.Errorf(api.KindNotFound, "sandbox %s may not use a secret %.80q", row.ID, name).
				WithHint("what it may use: hortus sandbox show %s", row.ID)
		}
		grants := slices.Clone(row.Secrets)
		grants[i].Revoked = true
		if end := grants[i].EndsAt; end == nil || end.After(now) {
			grants[i].EndsAt = &now
		}
		policy := policyOf(row)
		policy.Rules = withoutSecrets(policy.Rules, grants)
		return kept(row, policy, grants), nil
	}
}

// Follow gives a sandbox the rules that a secret of it needs now, in the place of those that it
// needed before. A secret that was removed leaves its rules. [ErrUnchanged] if they are the same.
func Follow(name string) Edit {
	return func(ctx context.Context, p Policies, row api.Sandbox) (Resolved, error) {
		if !granted(row.Secrets, name) || p.Server == nil {
			return Resolved{}, ErrUnchanged
		}
		rules, err := p.Server.SecretRules(ctx, row.Account, name)
		switch {
		case api.KindOf(err) == api.KindNotFound:
			return Resolved{}, ErrUnchanged
		case err != nil:
			return Resolved{}, err
		}
		policy := policyOf(row)
		old := policy.Rules
		mine := func(r api.EgressRule) bool { return r.Source == secretSource+name }
		at := slices.IndexFunc(old, mine)
		policy.Rules = slices.DeleteFunc(slices.Clone(old), mine)
		if at < 0 {
			at = len(policy.Rules)
		}
		policy.Rules = slices.Insert(policy.Rules, at, ofSecrets(rules)...)
		if reflect.DeepEqual(old, policy.Rules) {
			return Resolved{}, ErrUnchanged
		}
		return kept(row, policy, row.Secrets), nil
	}
}

// kept is what a row has, with another policy and other grants.
func kept(row api.Sandbox, policy api.EgressPolicy, grants []api.SecretGrant) Resolved {
	return Resolved{Policy: &policy, Ceiling: row.MaxEgress, Requested: true, Secrets: grants}
}

// ofSecrets marks rules as those of the secrets that their sources name.
func ofSecrets(rules []api.EgressRule) []api.EgressRule {
	out := slices.Clone(rules)
	for i := range out {
		out[i].Source = secretSource + out[i].Source
	}
	return out
}

// Restore gives a row what another row has of what [Resolved.Set] writes.
func Restore(from api.Sandbox) func(*api.Sandbox) {
	return func(row *api.Sandbox) {
		row.Egress, row.EgressPolicy, row.MaxEgress, row.Secrets = from.Egress, from.EgressPolicy, from.MaxEgress, from.Secrets
	}
}
