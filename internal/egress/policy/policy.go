package policy

import (
	"math"

	"hortus.dev/api"
)

const (
	maxPresets     = 32
	maxPreset      = 32 // bytes
	maxConnections = 4096
)

// Policy decides about the connections of a sandbox. It does not change: many goroutines may
// use it, and a policy that is replaced is another Policy.
type Policy struct {
	own         ruleset
	ceiling     *ruleset // nil for none
	connections int
	bytes       int64
}

// Empty reports whether no connection can be allowed, because there are no rules and nobody is
// asked.
func (p *Policy) Empty() bool { return len(p.own.rules) == 0 && !p.own.ask }

// ruleset is the rules of a policy, with an index of those that a host can match.
type ruleset struct {
	rules     []rule
	ask       bool
	byAddress bool // a rule denies an address, whatever the request
	// Positions in rules, in ascending order.
	names     map[string][]int32 // by name
	below     map[string][]int32 // by the name that the wildcard is below
	any       []int32
	addresses []int32
}

// Compile validates a policy, and a ceiling if it is not nil, and prepares them for use. Its
// errors are of KindInvalid and say which rule is wrong and how to write it. Presets are not
// expanded: their rules must be in Rules already.
//
// Limits: 1,000 rules, 16 KiB of text in a rule, 256 KiB of paths, 64 ports and ranges in a
// rule, 32 methods, 256 paths of 1 KiB with 16 wildcards each.
func Compile(p api.EgressPolicy, ceiling *api.EgressPolicy) (*Policy, error) {
	own, err := compile(p)
	if err != nil {
		return nil, err
	}
	out := &Policy{own: *own, connections: p.MaxConnections, bytes: p.MaxBytes}
	if out.connections == 0 {
		out.connections = api.DefaultEgressConnections
	}
	if ceiling == nil {
		return out, nil
	}
	if out.ceiling, err = compile(*ceiling); err != nil {
		return nil, api.Errorf(api.KindOf(err), "the key's ceiling: %w", err).WithHint("%s", api.HintOf(err))
	}
	if n := ceiling.MaxConnections; n > 0 {
		out.connections = min(out.connections, n)
	}
	if n := ceiling.MaxBytes; n > 0 && (out.bytes == 0 || n < out.bytes) {
		out.bytes = n
	}
	return out, nil
}

func compile(p api.EgressPolicy) (*ruleset, error) {
	switch {
	case len(p.Rules) > maxRules:
		return nil, api.Errorf(api.KindInvalid, "the policy has %d rules, the maximum is %d", len(p.Rules), maxRules).
			WithHint("Join rules with a wildcard or a range of addresses.")
	case p.MaxConnections < 0 || p.MaxConnections > maxConnections:
		return nil, api.Errorf(api.KindInvalid, "maxConnections is %d, not 1 to %d", p.MaxConnections, maxConnections).
			WithHint("Leave it out for the default of %d.", api.DefaultEgressConnections)
	case p.MaxBytes < 0:
		return nil, api.Errorf(api.KindInvalid, "maxBytes is %d, below 0", p.MaxBytes).
			WithHint("Leave it out for no limit.")
	case len(p.Presets) > maxPresets:
		return nil, api.Errorf(api.KindInvalid, "the policy has %d presets, the maximum is %d", len(p.Presets), maxPresets)
	}
	for _, name := range p.Presets {
		if !isPreset(name) {
			return nil, api.Errorf(api.KindInvalid, "%.40q is not a name of a preset", name).
				WithHint("Presets are rule sets such as npm or pip.")
		}
	}
	s := &ruleset{ask: p.Ask, rules: make([]rule, 0, len(p.Rules)), names: map[string][]int32{}, below: map[string][]int32{}}
	pathText := 0
	for i, in := range p.Rules {
		r, err := compileRule(in)
		if err != nil {
			return nil, api.Errorf(api.KindInvalid, "rule %d (host %.80q): %w", i+1, in.Host, err).WithHint("%s", api.HintOf(err))
		}
		for _, path := range r.paths {
			pathText += len(path)
		}
		if pathText > maxPathText {
			return nil, api.Errorf(api.KindInvalid, "the paths of the policy have more than %d bytes", maxPathText).
				WithHint("Join paths with the wildcards * and **.")
		}
		s.index(int32(i), r)
	}
	return s, nil
}

func (s *ruleset) index(i int32, r rule) {
	s.rules = append(s.rules, r)
	switch {
	case r.host.any:
		s.any = append(s.any, i)
	case r.host.addresses():
		s.addresses = append(s.addresses, i)
		s.byAddress = s.byAddress || r.deny && !r.conditional()
	case r.host.below != "":
		s.below[r.host.below] = append(s.below[r.host.below], i)
	default:
		s.names[r.host.name] = append(s.names[r.host.name], i)
	}
}

// isPreset reports whether s can be the name of a preset.
func isPreset(s string) bool {
	if s == "" || len(s) > maxPreset || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-') {
			return false
		}
	}
	return true
}

// Limits returns the maximum number of open connections, and of bytes in total (0 for no
// limit). They are the lower ones of the policy and of the ceiling.
func (p *Policy) Limits() (connections int, bytes int64) { return p.connections, p.bytes }

// ByAddress reports whether Resolved may deny what Connect allows.
func (p *Policy) ByAddress() bool {
	return p.own.byAddress || p.ceiling != nil && p.ceiling.byAddress
}

// matches are the rules whose host matches an endpoint, in order.
type matches struct {
	set   *ruleset
	to    endpoint
	lists [][]int32 // what remains of the lists that have such rules
}

// match returns the rules for an endpoint. buffer avoids an allocation.
func (s *ruleset) match(t endpoint, buffer [][]int32) matches {
	m := matches{s, t, buffer[:0]}
	add := func(list []int32) {
		if len(list) > 0 {
			m.lists = append(m.lists, list)
		}
	}
	add(s.any)
	if t.addr.IsValid() {
		add(s.addresses)
		return m
	}
	add(s.names[t.name])
	if len(s.below) == 0 {
		return m
	}
	for i := range len(t.name) {
		if t.name[i] == '.' {
			add(s.below[t.name[i+1:]])
		}
	}
	return m
}

// next returns the next rule and its position, or nil.
func (m *matches) next() (*rule, int) {
	for {
		list, first := -1, int32(math.MaxInt32)
		for i, l := range m.lists {
			if len(l) > 0 && l[0] < first {
				list, first = i, l[0]
			}
		}
		if list < 0 {
			return nil, len(m.set.rules)
		}
		m.lists[list] = m.lists[list][1:]
		r := &m.set.rules[first]
		if r.host.addresses() && !r.host.prefix.Contains(m.to.addr) {
			continue
		}
		return r, int(first)
	}
}
