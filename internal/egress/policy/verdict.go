package policy

import (
	"net/netip"

	"hortus.dev/api"
)

// Reasons of a Verdict that is not Allow. The set is closed.
const (
	ReasonNoRule  = "no rule matches"
	ReasonDenied  = "denied by a rule"
	ReasonCeiling = "the key's ceiling does not allow it"
	ReasonRequest = "the method or path is not allowed"
	ReasonPath    = "the path can be read in several ways, and a rule depends on it"
	ReasonInvalid = "the name, address or port is not valid"
)

// Verdict is the answer of a Policy.
type Verdict struct {
	Allow bool
	// Ask means that no rule matches and a person may be asked. Allow is false then. If the
	// person allows it, Class and Inspect hold.
	Ask   bool
	Class api.EgressClass
	// Inspect means that every request of the connection must be decided by Request. Class is
	// EgressWeb then.
	Inspect bool
	// Private means that the host may have private addresses.
	Private bool
	// Rule is the rule that decided, as Format writes it, and Source is where it is from.
	// They are empty if none matches. If the ceiling denies, Connect and Request name its
	// rule, and Name the rule of the policy that it overrules.
	Rule, Source string
	// Reason is one of the reasons above; empty if Allow.
	Reason string
}

// outcome is what one rule set decides.
type outcome struct {
	allow, deny bool // neither: no rule matches
	rule        *rule
	at          int // position of the rule; the number of rules if none matches
	class       api.EgressClass
	inspect     bool
	reason      string
}

// Connect decides about a connection. A rule with methods or paths does not decide about it
// alone: one that allows gives Allow and Inspect, and one that denies is skipped here, and
// gives Inspect to what allows the connection further down.
func (p *Policy) Connect(t Target) Verdict {
	e, ok := t.resolve()
	if !ok {
		return Verdict{Reason: ReasonInvalid}
	}
	return p.combine(e, func(s *ruleset) outcome { return s.connect(e) })
}

func (s *ruleset) connect(e endpoint) outcome {
	var buffer [8][]int32
	m := s.match(e, buffer[:])
	o := outcome{}
	for {
		r, at := m.next()
		switch {
		case r == nil:
			o.at, o.reason = at, ReasonNoRule
			return o
		case !r.ports.has(e.port):
		case r.deny && r.conditional():
			o.inspect = true
		default:
			o.inspect = o.inspect || r.conditional()
			o.decide(r, at, e)
			return o
		}
	}
}

// decide makes r the rule that decides.
func (o *outcome) decide(r *rule, at int, e endpoint) {
	o.rule, o.at, o.allow, o.deny = r, at, !r.deny, r.deny
	if r.deny {
		o.reason = ReasonDenied
		return
	}
	if o.class = r.classFor(e); o.inspect {
		o.class = api.EgressWeb
	}
}

// Request decides about an HTTP request of a connection that Connect allowed. path is the path
// as it was sent, percent-encoded; a query in it is ignored. A request whose path is ambiguous
// is denied when a rule with paths has to be matched with it (see plainPath), and one whose
// method is not in upper case when a rule with methods has to be. If the policy has Ask, a person
// may be asked about a request that only rules with other methods or paths are for.
func (p *Policy) Request(t Target, method, path string) Verdict {
	e, ok := t.resolve()
	if !ok {
		return Verdict{Reason: ReasonInvalid}
	}
	return p.combine(e, func(s *ruleset) outcome { return s.request(e, method, path) })
}

func (s *ruleset) request(e endpoint, method, path string) outcome {
	var buffer [8][]int32
	m := s.match(e, buffer[:])
	req := request{method: method, path: path}
	o := outcome{reason: ReasonNoRule}
	for {
		r, at := m.next()
		if r == nil {
			o.at = at
			return o
		}
		if !r.ports.has(e.port) {
			continue
		}
		if r.conditional() {
			o.inspect = true
			matched, unclear := req.match(r)
			if unclear != "" {
				return outcome{deny: true, rule: r, at: at, inspect: true, reason: unclear}
			}
			if !matched {
				if !r.deny {
					o.reason = ReasonRequest
				}
				continue
			}
		}
		o.reason = ""
		o.decide(r, at, e)
		return o
	}
}

// Name reports whether a name may be used at all: whether a connection to one of its ports
// would be allowed, or a person asked. It is what DNS answers. Class, Inspect and Private are
// those of a connection, so they are not set.
func (p *Policy) Name(host string) Verdict {
	if !normal(host) {
		return Verdict{Reason: ReasonInvalid}
	}
	e := endpoint{name: host}
	var buffer [8][]int32
	m := p.own.match(e, buffer[:])
	r, _ := m.next()
	if p.ceiling == nil {
		// Most questions end here.
		switch {
		case r == nil:
			return Verdict{Ask: p.own.ask, Reason: ReasonNoRule}
		case !r.deny:
			return Verdict{Allow: true, Rule: r.text, Source: r.source}
		}
	}
	var limit, rest portSet
	rest.add(everyPort())
	if p.ceiling == nil {
		limit = rest
	} else {
		p.ceiling.allowed(e, &limit)
	}
	// What explains a refusal is the first rule that the ceiling does not allow, or else the
	// first one that denies.
	denied := Verdict{Reason: ReasonNoRule}
	for ; r != nil; r, _ = m.next() {
		switch {
		case r.deny && r.conditional():
			continue
		case !rest.meets(r.ports):
		case !r.deny && rest.meetsBoth(r.ports, &limit):
			return Verdict{Allow: true, Rule: r.text, Source: r.source}
		case !r.deny && denied.Reason != ReasonCeiling:
			denied = Verdict{Rule: r.text, Source: r.source, Reason: ReasonCeiling}
		case denied.Reason == ReasonNoRule:
			denied = Verdict{Rule: r.text, Source: r.source, Reason: ReasonDenied}
		}
		rest.remove(r.ports)
	}
	if p.own.ask && rest.meets(everyPort()) {
		if rest.meetsBoth(everyPort(), &limit) {
			return Verdict{Ask: true, Reason: ReasonNoRule}
		}
		if denied.Rule == "" {
			denied.Reason = ReasonCeiling
		}
	}
	return denied
}

// allowed adds the ports of a name that the rules allow connections to.
func (s *ruleset) allowed(e endpoint, out *portSet) {
	var rest portSet
	rest.add(everyPort())
	var buffer [8][]int32
	m := s.match(e, buffer[:])
	for r, _ := m.next(); r != nil; r, _ = m.next() {
		if r.deny && r.conditional() {
			continue
		}
		if !r.deny {
			out.addBoth(r.ports, &rest)
		}
		rest.remove(r.ports)
	}
}

// Resolved decides about a connection to a name when its address is known. A rule for an
// address does not match a connection to a name, but one that denies must not be avoided with
// a name for the address: Resolved denies if, before the rule that decides about the name, the
// first rule for the address denies it. It is Connect otherwise.
func (p *Policy) Resolved(t Target, addr netip.Addr) Verdict {
	v := p.Connect(t)
	e, ok := t.resolve()
	if !ok || e.addr.IsValid() || !v.Allow && !v.Ask {
		return v
	}
	to := endpoint{addr: addr.Unmap().WithZone(""), port: e.port}
	if r := p.own.denies(to, p.own.connect(e).at); r != nil {
		return Verdict{Rule: r.text, Source: r.source, Reason: ReasonDenied}
	}
	if p.ceiling == nil {
		return v
	}
	if r := p.ceiling.denies(to, p.ceiling.connect(e).at); r != nil {
		return Verdict{Rule: r.text, Source: r.source, Reason: ReasonCeiling}
	}
	return v
}

// denies returns the rule for an address that denies a connection, if it is before end.
func (s *ruleset) denies(e endpoint, end int) *rule {
	for _, i := range s.addresses {
		r := &s.rules[i]
		if int(i) >= end {
			return nil
		}
		if r.conditional() || !r.ports.has(e.port) || !r.host.prefix.Contains(e.addr) {
			continue
		}
		if r.deny {
			return r
		}
		return nil
	}
	return nil
}

// combine asks the policy, then the ceiling, and joins their answers: both must allow, and the
// stricter way to carry the connection holds.
func (p *Policy) combine(e endpoint, ask func(*ruleset) outcome) Verdict {
	own := ask(&p.own)
	v := Verdict{Allow: own.allow, Class: own.class, Inspect: own.inspect, Reason: own.reason}
	if own.rule != nil {
		v.Rule, v.Source, v.Private = own.rule.text, own.rule.source, own.rule.private && own.allow
	}
	if !own.allow {
		v.Ask = !own.deny && p.own.ask
		v.Class = defaultClass(e, own.inspect)
	}
	if !v.Allow && !v.Ask {
		return Verdict{Rule: v.Rule, Source: v.Source, Reason: v.Reason}
	}
	if p.ceiling == nil {
		return v
	}
	c := ask(p.ceiling)
	if !c.allow {
		v = Verdict{Reason: ReasonCeiling}
		if c.rule != nil {
			v.Rule, v.Source = c.rule.text, c.rule.source
		}
		return v
	}
	v.Private = v.Private && c.rule.private
	if v.Inspect = v.Inspect || c.inspect; v.Inspect {
		v.Class = api.EgressWeb
	} else {
		v.Class = stricter(v.Class, c.class)
	}
	return v
}

// defaultClass is the class of a connection that no rule matches.
func defaultClass(e endpoint, inspect bool) api.EgressClass {
	if e.addr.IsValid() && !inspect {
		return api.EgressTCP
	}
	return api.EgressWeb
}

// stricter returns the class in which the host reads more.
func stricter(a, b api.EgressClass) api.EgressClass {
	switch {
	case a == api.EgressWeb || b == api.EgressWeb:
		return api.EgressWeb
	case a == api.EgressPassthrough || b == api.EgressPassthrough:
		return api.EgressPassthrough
	}
	return api.EgressTCP
}
