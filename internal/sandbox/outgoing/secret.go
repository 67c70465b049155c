package outgoing

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
)

// secretSource begins the source of a rule that is there for a secret; the name of the secret follows.
const secretSource = "secret:"

// secrets appends to a policy the rules that its secrets need. New secrets have variables with their placeholders.
func (p Policies) secrets(ctx context.Context, policy *api.EgressPolicy, req Request) (env map[string]string, err error) {
	policy.Rules = withoutSecrets(policy.Rules, nil)
	if len(req.Secrets) == 0 {
		return nil, nil
	}
	if req.Had != nil {
		for _, r := range req.Had.Rules {
			if name, ok := strings.CutPrefix(r.Source, secretSource); ok && granted(req.Secrets, name) {
				policy.Rules = append(policy.Rules, r)
			}
		}
		return nil, nil
	}
	if err := api.CheckSecretGrants(req.Secrets); err != nil {
		return nil, err
	}
	if p.Server == nil {
		return nil, api.Errorf(api.KindUnsupported, "this daemon does not serve outgoing connections of sandboxes, so they cannot use secrets (capability %s)", api.CapEgress)
	}
	rules, env, err := p.Server.Secrets(ctx, req.Account, req.Secrets)
	if err != nil {
		return nil, err
	}
	policy.Rules = append(policy.Rules, ofSecrets(rules)...)
	return env, nil
}

// granted reports whether a secret is among grants that were not revoked.
func granted(grants []api.SecretGrant, name string) bool {
	return slices.ContainsFunc(grants, func(g api.SecretGrant) bool { return g.Name == name && !g.Revoked })
}

// withoutSecrets returns rules without those that are there for a secret, but for the secrets of kept.
func withoutSecrets(rules []api.EgressRule, kept []api.SecretGrant) []api.EgressRule {
	return slices.DeleteFunc(slices.Clone(rules), func(r api.EgressRule) bool {
		name, ok := strings.CutPrefix(r.Source, secretSource)
		return ok && !granted(kept, name)
	})
}

// Inherit returns the secrets of a parent that its children may use: those that are named. KindInvalid for one that the
// parent may not use, or no more.
func Inherit(parent api.Sandbox, names []string, now time.Time) (out []api.SecretGrant, err error) {
	for _, name := range names {
		i := slices.IndexFunc(parent.Secrets, func(g api.SecretGrant) bool { return g.Name == name && !g.Revoked })
		if i < 0 {
			if inRules(parent, name) {
				continue
			}
			return nil, api.Errorf(api.KindInvalid, "sandbox %s may not use the secret %.80q, so its children cannot", parent.ID, name).
				WithHint("create the parent with this secret, and fork that")
		}
		if parent.Secrets[i].Ended(now) {
			return nil, api.Errorf(api.KindInvalid, "the grant of the secret %s to sandbox %s ended at %s, so its children cannot use it", name, parent.ID, parent.Secrets[i].EndsAt.UTC().Format(time.RFC3339)).
				WithHint("create a sandbox with this secret")
		}
		if !slices.Contains(out, parent.Secrets[i]) {
			out = append(out, parent.Secrets[i])
		}
	}
	return out, nil
}

// began returns the grants of a sandbox with the ends of those that have none yet.
func began(grants []api.SecretGrant, created time.Time) []api.SecretGrant {
	out := slices.Clone(grants)
	for i, g := range out {
		if g.LifetimeMS > 0 && g.EndsAt == nil {
			end := created.Add(time.Duration(g.LifetimeMS) * time.Millisecond).Round(0) // of the wall clock
			out[i].EndsAt = &end
		}
	}
	return out
}

// merged returns variables, and others in the place of those with the same name.
func merged(env, others map[string]string) map[string]string {
	if len(others) == 0 {
		return env
	}
	out := map[string]string{}
	maps.Copy(out, env)
	maps.Copy(out, others)
	return out
}
