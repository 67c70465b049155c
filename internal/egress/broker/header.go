package broker

import (
	"errors"
	"maps"
	"net/textproto"
	"slices"
	"strings"
	"sync/atomic"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/egress/policy"
)

const (
	// maxRuled bounds all values of a rule together, in bytes, after secrets are filled in.
	maxRuled = 96 << 10
	// maxSent is the maximum number of pairs of a host and a secret that are remembered. With
	// more of them the answers of every server are searched.
	maxSent = 1024
)

// headers are the header rules of a session.
type headers struct {
	rules   atomic.Pointer[ruleset]
	revoked atomic.Int64 // calls of RevokeHeader
}

// ruleset are the rules at one time. It is not changed.
type ruleset struct {
	exact map[server]*rule
	below map[server]*rule // by the name that the host is below
	sent  map[permission]struct{}
	// everywhere are the secrets that may have been sent to any server; see maxSent.
	everywhere []string
}

type server struct {
	host string
	port int
}

// permission is that a secret may be sent to the servers of a rule's host.
type permission struct {
	server
	below  bool
	secret string
}

// rule is an api.HeaderRule that was checked.
type rule struct {
	permission // without a secret
	headers    []ruleHeader
	secrets    []string // sorted
}

type ruleHeader struct {
	name  string
	same  string // secrets.SameHeader of it
	parts []secrets.Part
}

// SetHeaders replaces the header rules. Requests that begin later have the new headers, and
// WebSockets that were opened with a secret that their rule no longer names are closed.
//
// Errors: KindInvalid for rules that are malformed, and KindExhausted if the rules of the session
// have named too many secrets; the old ones remain.
func (s *Session) SetHeaders(rules []api.HeaderRule) error {
	if err := secrets.CheckHeaders(rules); err != nil {
		return err
	}
	next := &ruleset{exact: map[server]*rule{}, below: map[server]*rule{}, sent: map[permission]struct{}{}}
	for _, r := range rules {
		compiled, err := compileRule(r)
		if err != nil {
			return err
		}
		if compiled.below {
			next.below[compiled.server] = compiled
		} else {
			next.exact[compiled.server] = compiled
		}
		for _, name := range compiled.secrets {
			to := compiled.permission
			to.secret = name
			next.sent[to] = struct{}{}
		}
	}
	if err := s.replaceRules(next); err != nil {
		return err
	}
	s.closeRuled("")
	return nil
}

func (s *Session) replaceRules(next *ruleset) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Load().closed {
		return errors.New("the session is closed")
	}
	if err := next.remember(s.headers.rules.Load()); err != nil {
		return err
	}
	s.headers.rules.Store(next)
	return nil
}

func compileRule(r api.HeaderRule) (*rule, error) {
	r = secrets.HeaderDefaults(r)
	host, below := strings.CutPrefix(r.Host, "*.")
	t, err := policy.NewTarget(host, r.Port)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "header rule for %.80q: %w", r.Host, err)
	}
	out := &rule{permission: permission{server: server{t.Host, t.Port}, below: below}, secrets: secrets.Named(r)}
	for name, value := range r.Headers {
		parts, err := secrets.Template(value)
		if err != nil {
			return nil, err
		}
		out.headers = append(out.headers, ruleHeader{textproto.CanonicalMIMEHeaderKey(name), secrets.SameHeader(name), parts})
	}
	slices.SortFunc(out.headers, func(a, b ruleHeader) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

// remember adds what the old rules sent: a server may have kept a value.
func (next *ruleset) remember(old *ruleset) error {
	names := map[string]bool{}
	next.everywhere = old.everywhere
	for to := range old.sent {
		next.sent[to] = struct{}{}
	}
	for to := range next.sent {
		names[to.secret] = true
	}
	for _, name := range next.everywhere {
		names[name] = true
	}
	if len(names) > api.MaxSecretGrants {
		return api.Errorf(api.KindExhausted, "the header rules of this sandbox have named %d secrets; the maximum is %d", len(names), api.MaxSecretGrants).
			WithHint("replace the value of a secret instead of naming another one, or create another sandbox")
	}
	if len(next.sent) > maxSent {
		next.everywhere, next.sent = slices.Sorted(maps.Keys(names)), map[permission]struct{}{}
	}
	return nil
}

// find returns the rule for a server, nil if there is none.
func (rs *ruleset) find(t policy.Target) *rule {
	if r := rs.exact[server{t.Host, t.Port}]; r != nil || len(rs.below) == 0 {
		return r
	}
	for name := t.Host; ; {
		_, rest, ok := strings.Cut(name, ".")
		if !ok {
			return nil
		}
		if r := rs.below[server{rest, t.Port}]; r != nil {
			return r
		}
		name = rest
	}
}

// sentTo returns the secrets that were sent to a host, or may be, at any of its ports.
func (rs *ruleset) sentTo(t policy.Target) (names []string) {
	names = rs.everywhere
	for to := range rs.sent {
		if (!to.below && to.host == t.Host || to.below && strings.HasSuffix(t.Host, "."+to.host)) && !slices.Contains(names, to.secret) {
			names = append(slices.Clip(names), to.secret)
		}
	}
	return names
}

// rulesFor returns the rule for a request, and the secrets whose values are searched for in its
// answer.
func (s *Session) rulesFor(scheme string, t policy.Target) (*rule, []string) {
	rs := s.headers.rules.Load()
	sent := rs.sentTo(t)
	if scheme != "https" {
		return nil, sent
	}
	r := rs.find(t)
	if r != nil && len(r.headers) == 0 {
		r = nil
	}
	return r, sent
}

// SetsHeaders reports whether a rule sets headers in requests to a server, so that its
// connections must be read.
func (s *Session) SetsHeaders(t policy.Target) bool {
	r, _ := s.rulesFor("https", t)
	return r != nil
}
