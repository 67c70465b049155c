package policy

import (
	"slices"
	"strings"

	"hortus.dev/api"
)

const (
	// maxRules is the maximum number of rules of a policy, maxRuleText of bytes of a rule.
	maxRules    = 1000
	maxRuleText = 16 << 10
	maxMethods  = 32
	maxMethod   = 32 // bytes
	maxSource   = 80 // bytes
)

// rule is a rule that was validated.
type rule struct {
	deny    bool
	host    host
	ports   ports
	class   api.EgressClass
	private bool
	http    bool     // it was written with methods or paths
	methods []string // nil for any
	paths   []string // nil for any
	text    string   // as Format writes it
	source  string
}

// conditional reports whether the rule depends on the request.
func (r *rule) conditional() bool { return r.methods != nil || r.paths != nil }

// classFor returns how a connection is carried that the rule allows. There is no name for an
// address to check the identity of a server with, so it is carried as TCP unless the rule has
// methods or paths, which need HTTP.
func (r *rule) classFor(t endpoint) api.EgressClass {
	if r.class == api.EgressWeb && !r.http && t.addr.IsValid() {
		return api.EgressTCP
	}
	return r.class
}

// compileRule validates a rule.
func compileRule(r api.EgressRule) (rule, error) {
	if err := checkText(r); err != nil {
		return rule{}, err
	}
	h, err := parseHost(r.Host)
	if err != nil {
		return rule{}, err
	}
	out := rule{deny: r.Action == api.EgressDeny, host: h, class: r.Class, private: r.Private, source: r.Source}
	if out.ports, err = rulePorts(h, r.Ports); err != nil {
		return rule{}, err
	}
	conditions := len(r.Methods) > 0 || len(r.Paths) > 0
	switch {
	case r.Private && (h.any || h.below != ""):
		return rule{}, api.Errorf(api.KindInvalid, "private addresses cannot be allowed for %s: anyone who has a name below it could point it into your network", h).
			WithHint("Write one rule with private for each name.")
	case conditions && r.Class != api.EgressWeb:
		return rule{}, api.Errorf(api.KindInvalid, "methods and paths need HTTP, which is not read in the class %s", r.Class).
			WithHint("Leave the class empty, or leave methods and paths out.")
	}
	for _, m := range r.Methods {
		if !isMethod(m) {
			return rule{}, api.Errorf(api.KindInvalid, "%.40q is not an HTTP method in upper case", m).
				WithHint("Write methods such as GET or POST.")
		}
	}
	for _, p := range r.Paths {
		if err := checkPattern(p); err != nil {
			return rule{}, err
		}
	}
	out.http, out.text = conditions, Format(r)
	if len(r.Methods) > 0 {
		out.methods = slices.Clone(r.Methods)
	}
	// Every path is no condition, so that a request with an ambiguous path is allowed too.
	if len(r.Paths) > 0 && !slices.Contains(r.Paths, "/**") {
		out.paths = slices.Clone(r.Paths)
	}
	return out, nil
}

// checkText validates what a rule's other fields do not depend on.
func checkText(r api.EgressRule) error {
	size := len(r.Action) + len(r.Host) + len(r.Ports) + len(r.Class) + len(r.Source)
	for _, s := range [][]string{r.Methods, r.Paths} {
		for _, t := range s {
			size += len(t)
		}
	}
	switch {
	case size > maxRuleText:
		return api.Errorf(api.KindInvalid, "it has %d bytes, the maximum is %d", size, maxRuleText).
			WithHint("Split it into several rules.")
	case r.Action != api.EgressAllow && r.Action != api.EgressDeny:
		return api.Errorf(api.KindInvalid, "its action is %.40q, not %q or %q", r.Action, api.EgressAllow, api.EgressDeny)
	case r.Class != api.EgressWeb && r.Class != api.EgressPassthrough && r.Class != api.EgressTCP:
		return api.Errorf(api.KindInvalid, "its class is %.40q", r.Class).
			WithHint("Classes are %q, %q, and empty for HTTP and TLS that the host reads.", api.EgressPassthrough, api.EgressTCP)
	case r.Host == "":
		return api.Errorf(api.KindInvalid, "it has no host").
			WithHint("Write * for every host.")
	case len(r.Methods) > maxMethods:
		return api.Errorf(api.KindInvalid, "it has %d methods, the maximum is %d", len(r.Methods), maxMethods)
	case len(r.Paths) > maxPaths:
		return api.Errorf(api.KindInvalid, "it has %d paths, the maximum is %d", len(r.Paths), maxPaths).
			WithHint("Split it into several rules.")
	case len(r.Source) > maxSource || strings.ContainsFunc(r.Source, func(c rune) bool { return c <= ' ' || c >= 0x7f }):
		return api.Errorf(api.KindInvalid, "its source is not at most %d printable ASCII characters", maxSource)
	}
	return nil
}

// rulePorts returns the ports of a rule; none are the defaults of its host.
func rulePorts(h host, s string) (ports, error) {
	switch {
	case s != "":
		return parsePorts(s)
	case h.any || h.addresses():
		return everyPort(), nil
	}
	return webPorts(), nil
}

// isMethod reports whether m is an HTTP method as rules have it.
func isMethod(m string) bool {
	if m == "" || len(m) > maxMethod || m[0] < 'A' || m[0] > 'Z' {
		return false
	}
	for i := range len(m) {
		if c := m[i]; !(c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}
