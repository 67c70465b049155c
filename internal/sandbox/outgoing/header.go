package outgoing

import (
	"context"
	"reflect"
	"slices"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// headers validates the header rules of a policy. Rules that the sandbox had are not validated
// anew: a secret that was removed must not keep the rest of the policy from being changed.
func (p Policies) headers(ctx context.Context, policy *api.EgressPolicy, req Request) error {
	if len(policy.Headers) == 0 {
		policy.Headers = nil
		return nil
	}
	if p.Server == nil {
		return api.Errorf(api.KindUnsupported, "this daemon does not serve outgoing connections of sandboxes, so it sets no headers (capability %s)", api.CapEgress)
	}
	if err := secrets.CheckHeaders(policy.Headers); err != nil {
		return err
	}
	var had []api.HeaderRule
	if req.Had != nil {
		had = req.Had.Headers
	}
	for i, r := range policy.Headers {
		if slices.ContainsFunc(had, func(old api.HeaderRule) bool { return reflect.DeepEqual(old, r) }) {
			continue
		}
		full, err := p.Server.Headers(ctx, req.Account, []api.HeaderRule{r})
		if err != nil {
			return err
		}
		policy.Headers[i] = full[0]
	}
	return nil
}

// setsHeaders reports whether the policy has header rules.
func (r Resolved) setsHeaders() bool { return r.Policy != nil && len(r.Policy.Headers) > 0 }

// NoHeaders refuses header rules in a policy that is not that of one sandbox: KindInvalid. The policy
// may be nil.
func NoHeaders(p *api.EgressPolicy) error {
	if p == nil || len(p.Headers) == 0 {
		return nil
	}
	return api.Errorf(api.KindInvalid, "header rules are for the policy of a sandbox; a ceiling or a default policy has none")
}

// withoutHeaders returns a default policy, which may be nil, as one without header rules.
func withoutHeaders(p *api.EgressPolicy) *api.EgressPolicy {
	if p == nil || len(p.Headers) == 0 {
		return p
	}
	out := *p
	out.Headers = nil
	return &out
}

// headersOf returns the rules whose secrets are all among names.
func headersOf(rules []api.HeaderRule, names []string) (out []api.HeaderRule) {
	for _, r := range rules {
		if !slices.ContainsFunc(secrets.Named(r), func(name string) bool { return !slices.Contains(names, name) }) {
			out = append(out, r)
		}
	}
	return out
}

// inRules reports whether a header rule of a sandbox names a secret.
func inRules(row api.Sandbox, name string) bool {
	return row.EgressPolicy != nil && slices.ContainsFunc(row.EgressPolicy.Headers, func(r api.HeaderRule) bool { return slices.Contains(secrets.Named(r), name) })
}
