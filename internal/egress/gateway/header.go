package gateway

import (
	"hortus.dev/api"
	"hortus.dev/internal/egress/policy"
)

// SetHeaders replaces the rules for headers. Apply must be called afterwards: connections that were
// not read, to hosts that have a rule now, are closed by it.
//
// Errors: KindInvalid for rules that are malformed, KindExhausted for too many secrets in them, and
// KindUnsupported if there is no broker; the old ones remain.
func (s *Session) SetHeaders(rules []api.HeaderRule) error {
	if s.secrets == nil {
		if len(rules) == 0 {
			return nil
		}
		return api.Errorf(api.KindUnsupported, "the gateway has no broker of secrets, which sets headers")
	}
	return s.secrets.SetHeaders(rules)
}

// RevokeHeader closes the WebSockets that a secret in the header of a rule opened.
func (s *Session) RevokeHeader(name string) {
	if s.secrets != nil {
		s.secrets.RevokeHeader(name)
	}
}

// connectTo decides about a connection. One to a host in whose requests headers are set is read,
// whatever the class of the rule that allows it.
func (s *Session) connectTo(p *policy.Policy, t policy.Target) policy.Verdict {
	v := p.Connect(t)
	if v.Class != api.EgressWeb && s.secrets != nil && s.secrets.SetsHeaders(t) {
		v.Class = api.EgressWeb
	}
	return v
}
