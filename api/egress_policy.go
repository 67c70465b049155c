package api

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds on the policy of a request. Sizes are in bytes.
const (
	// MaxEgressRules is the number of rules of a policy, MaxEgressPresets that of its
	// presets.
	MaxEgressRules   = 1000
	MaxEgressPresets = 32
	// MaxEgressBytes bounds all text of a policy together.
	MaxEgressBytes = 256 << 10
	// MaxEgressHost bounds a name, an address or a range, MaxEgressPorts the ports of a
	// rule.
	MaxEgressHost  = 300
	MaxEgressPorts = 1 << 10
	// MaxEgressMethods and MaxEgressPaths bound the lists of a rule. A method has at most
	// MaxEgressMethod bytes, a path at most MaxEgressPath.
	MaxEgressMethods = 32
	MaxEgressMethod  = 32
	MaxEgressPaths   = 100
	MaxEgressPath    = 2 << 10
	// MaxEgressSource bounds the source of a rule and the name of a preset.
	MaxEgressSource = 80
	// MaxEgressConnections is the maximum of EgressPolicy.MaxConnections.
	MaxEgressConnections = 4096
)

// Opens reports whether the policy allows anything, or asks about it.
func (p EgressPolicy) Opens() bool {
	return p.Ask || len(p.Presets) > 0 || slices.ContainsFunc(p.Rules, func(r EgressRule) bool { return r.Action != EgressDeny })
}

// IsZero reports whether the policy is the zero value, which denies everything.
func (p EgressPolicy) IsZero() bool {
	return len(p.Presets) == 0 && len(p.Rules) == 0 && len(p.Headers) == 0 && !p.Ask && p.MaxConnections == 0 && p.MaxBytes == 0
}

// WithRules returns the policy with rules before its own. A rule of its own that is equal to one
// of them is left out, because it could never decide.
func (p EgressPolicy) WithRules(rules []EgressRule) EgressPolicy {
	out := slices.Clone(rules)
	for _, r := range p.Rules {
		if !slices.ContainsFunc(rules, r.equal) {
			out = append(out, r)
		}
	}
	p.Rules = out
	return p
}

// equal reports whether two rules match and decide the same. Their sources may differ.
func (r EgressRule) equal(o EgressRule) bool {
	return r.Action == o.Action && r.Host == o.Host && r.Ports == o.Ports && r.Class == o.Class && r.Private == o.Private &&
		slices.Equal(r.Methods, o.Methods) && slices.Equal(r.Paths, o.Paths)
}

// CheckBounds refuses a policy with a list, string or number that is out of bounds: KindInvalid.
func (p EgressPolicy) CheckBounds() error {
	switch {
	case len(p.Presets) > MaxEgressPresets:
		return Errorf(KindInvalid, "%d egress presets; the maximum is %d", len(p.Presets), MaxEgressPresets)
	case p.MaxConnections < 0 || p.MaxConnections > MaxEgressConnections:
		return Errorf(KindInvalid, "maxConnections %d is not between 0 and %d", p.MaxConnections, MaxEgressConnections)
	case p.MaxBytes < 0:
		return Errorf(KindInvalid, "maxBytes %d is negative", p.MaxBytes)
	}
	total := 0
	for _, name := range p.Presets {
		total += len(name)
		if name == "" || len(name) > MaxEgressSource || !utf8.ValidString(name) {
			return Errorf(KindInvalid, "%.40q is not the name of an egress preset", name)
		}
	}
	for _, r := range p.Headers {
		total += len(r.Host)
		for name, value := range r.Headers {
			total += len(name) + len(value)
		}
	}
	return checkEgressRules(p.Rules, total)
}

// CheckBounds refuses rules that are out of bounds, and an empty list: KindInvalid.
func (r AddEgressRules) CheckBounds() error {
	if len(r.Rules) == 0 {
		return Errorf(KindInvalid, "no egress rule was given")
	}
	return checkEgressRules(r.Rules, 0)
}

// checkEgressRules checks rules. total is the size of the text beside them.
func checkEgressRules(rules []EgressRule, total int) error {
	if len(rules) > MaxEgressRules {
		return Errorf(KindInvalid, "%d egress rules; the maximum is %d", len(rules), MaxEgressRules).
			WithHint("join rules with a wildcard such as *.example.org")
	}
	for i, r := range rules {
		n, err := r.size()
		if err != nil {
			return Errorf(KindInvalid, "egress rule %d: %w", i+1, err)
		}
		total += n
	}
	if total > MaxEgressBytes {
		return Errorf(KindInvalid, "the egress policy has %d bytes of text; the maximum is %d", total, MaxEgressBytes)
	}
	return nil
}

// size returns the size of a rule's text, or what is wrong with it.
func (r EgressRule) size() (int, error) {
	switch {
	case r.Action != EgressAllow && r.Action != EgressDeny:
		return 0, Errorf(KindInvalid, "action %.40q is not %q or %q", r.Action, EgressAllow, EgressDeny)
	case r.Class != EgressWeb && r.Class != EgressPassthrough && r.Class != EgressTCP:
		return 0, Errorf(KindInvalid, "class %.40q is not empty, %q or %q", r.Class, EgressPassthrough, EgressTCP)
	case r.Host == "" || len(r.Host) > MaxEgressHost:
		return 0, Errorf(KindInvalid, "host %.40q has %d bytes; it must have 1 to %d", r.Host, len(r.Host), MaxEgressHost)
	case len(r.Ports) > MaxEgressPorts:
		return 0, Errorf(KindInvalid, "ports %.40q have %d bytes; the maximum is %d", r.Ports, len(r.Ports), MaxEgressPorts)
	case len(r.Source) > MaxEgressSource:
		return 0, Errorf(KindInvalid, "source %.40q has %d bytes; the maximum is %d", r.Source, len(r.Source), MaxEgressSource)
	case len(r.Methods) > MaxEgressMethods:
		return 0, Errorf(KindInvalid, "%d methods; the maximum is %d", len(r.Methods), MaxEgressMethods)
	case len(r.Paths) > MaxEgressPaths:
		return 0, Errorf(KindInvalid, "%d paths; the maximum is %d", len(r.Paths), MaxEgressPaths)
	}
	n := len(r.Host) + len(r.Ports) + len(r.Source)
	for _, m := range r.Methods {
		if n += len(m); len(m) > MaxEgressMethod {
			return 0, Errorf(KindInvalid, "method %.40q has %d bytes; the maximum is %d", m, len(m), MaxEgressMethod)
		}
	}
	for _, p := range r.Paths {
		if n += len(p); len(p) > MaxEgressPath {
			return 0, Errorf(KindInvalid, "path %.40q has %d bytes; the maximum is %d", p, len(p), MaxEgressPath)
		}
	}
	if text := strings.Join(slices.Concat([]string{r.Host, r.Ports, r.Source}, r.Methods, r.Paths), ""); !utf8.ValidString(text) {
		return 0, Errorf(KindInvalid, "it is not UTF-8")
	}
	return n, nil
}

// AddEgressRules requests rules that are tried before the others of a sandbox's policy.
type AddEgressRules struct {
	Rules []EgressRule `json:"rules"`
}

// EgressFilter selects decisions. A zero field does not filter.
type EgressFilter struct {
	Sandbox SandboxID
	Result  EgressResult
	// Host is a host, or "*.example.org" for the names below one.
	Host string
	// Since excludes decisions before it.
	Since time.Time
}

// AnswerEgressAsk answers a connection that waits for a person.
type AnswerEgressAsk struct {
	Action EgressAction `json:"action"`
	// Remember adds the answer to the sandbox's policy as a rule.
	Remember bool `json:"remember,omitempty"`
}

// EventEgressPolicy reports that the policy of a sandbox was replaced. Its data is an
// EgressPolicyEvent.
const EventEgressPolicy EventType = "sandbox.egress_policy"

// EgressPolicyEvent reports that the policy of a sandbox was replaced.
type EgressPolicyEvent struct {
	// Egress is EgressNone or EgressRules.
	Egress  string   `json:"egress"`
	Presets []string `json:"presets,omitempty"`
	// Rules are the first rules of the policy, of RuleCount.
	Rules     []EgressRule `json:"rules,omitempty"`
	RuleCount int          `json:"ruleCount"`
	Ask       bool         `json:"ask,omitempty"`
}

// maxEventRules is the number of rules that an EgressPolicyEvent has.
const maxEventRules = 20

// NewEgressPolicyEvent returns the event of a sandbox's policy.
func NewEgressPolicyEvent(s Sandbox) EgressPolicyEvent {
	out := EgressPolicyEvent{Egress: s.Egress}
	if p := s.EgressPolicy; p != nil {
		out.Presets, out.Ask, out.RuleCount = p.Presets, p.Ask, len(p.Rules)
		out.Rules = p.Rules[:min(len(p.Rules), maxEventRules)]
	}
	return out
}
