package server

import (
	"context"
	"slices"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/egress/policy"
)

// Headers implements sandbox.EgressServer.
func (s *Server) Headers(ctx context.Context, account string, rules []api.HeaderRule) ([]api.HeaderRule, error) {
	if err := secrets.CheckHeaders(rules); err != nil {
		return nil, err
	}
	var out []api.HeaderRule
	for _, r := range rules {
		r = secrets.HeaderDefaults(r)
		// The name is checked as that of an egress rule, of which it has the forms.
		if _, err := policy.Compile(api.EgressPolicy{Rules: []api.EgressRule{{Action: api.EgressAllow, Host: r.Host}}}, nil); err != nil {
			return nil, api.Errorf(api.KindInvalid, "header rule for %.80q: %w", r.Host, err).WithHint("%s", api.HintOf(err))
		}
		for _, name := range secrets.Named(r) {
			if err := s.headerSecret(ctx, account, name); err != nil {
				return nil, api.Errorf(api.KindOf(err), "header rule for %s: %w", r.Host, err).WithHint("%s", api.HintOf(err))
			}
		}
		out = append(out, r)
	}
	return out, nil
}

// headerSecret refuses a secret that a header rule may not name.
func (s *Server) headerSecret(ctx context.Context, account, name string) error {
	if s.cfg.Secrets == nil {
		return api.Errorf(api.KindUnsupported, "this daemon keeps no secrets")
	}
	row, err := s.cfg.Secrets.Lookup(ctx, account, name)
	switch {
	case api.KindOf(err) == api.KindNotFound:
		return api.Errorf(api.KindNotFound, "there is no secret %.80q", name).WithHint("make one: hortus secret set %s --for-headers", name)
	case err != nil:
		return err
	case !row.ForHeaders && len(row.Bindings) == 0:
		return api.Errorf(api.KindDenied, "secret %s is for the daemon alone: a header rule cannot name it", name).WithHint("set another one: hortus secret set NAME --for-headers")
	case !row.ForHeaders:
		return api.Errorf(api.KindDenied, "secret %s is not for headers: it may be used where its bindings say", name).
			WithHint("let the sandbox use it there with --secret %s, or set another one: hortus secret set NAME --for-headers", name)
	}
	return nil
}

// forHeaders is the error for a grant of a secret without bindings that is for header rules.
func forHeaders(name string) error {
	return api.Errorf(api.KindDenied, "secret %s is for header rules, and has no bindings: it has no placeholder", name).
		WithHint("name it in a rule: --header 'HOST NAME: ${secret:%s}'", name)
}

// setHeaders gives the gateway's session the header rules of a policy.
func (s *session) setHeaders(rules []api.HeaderRule) error {
	var named []string
	for _, r := range rules {
		named = append(named, secrets.Named(r)...)
	}
	s.server.mu.Lock()
	if delete(s.server.ruled, s); len(named) > 0 {
		s.server.ruled[s] = named
	}
	s.server.mu.Unlock()
	return s.gateway.SetHeaders(rules)
}

// headerChanged ends what is open with a secret in the header of a rule, if no rule may name it any
// more. Each request reads the secret anew.
func (s *Server) headerChanged(ctx context.Context, account, name string) {
	var all []*session
	s.mu.Lock()
	for one, named := range s.ruled {
		if one.peer.Account == account && slices.Contains(named, name) {
			all = append(all, one)
		}
	}
	s.mu.Unlock()
	if len(all) == 0 || s.headerSecret(ctx, account, name) == nil {
		return
	}
	for _, one := range all {
		one.mu.Lock()
		g := one.gateway
		one.mu.Unlock()
		g.RevokeHeader(name)
	}
}
