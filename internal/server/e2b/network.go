package e2b

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// Egress replaces what a sandbox may connect to.
type Egress interface {
	SetEgress(ctx context.Context, id api.SandboxID, p api.EgressPolicy) (api.Sandbox, error)
}

// networkConfig is what a client asks of a sandbox's network, when it is made.
type networkConfig struct {
	AllowOut      []string        `json:"allowOut"`
	DenyOut       []string        `json:"denyOut"`
	Rules         wireRules       `json:"rules"`
	EgressProxy   json.RawMessage `json:"egressProxy"`
	PublicTraffic *bool           `json:"allowPublicTraffic"`
	MaskHost      *string         `json:"maskRequestHost"`
	HTTPSPorts    []int           `json:"httpsPorts"`
}

// networkUpdate replaces what a sandbox may reach.
type networkUpdate struct {
	Internet    *bool           `json:"allow_internet_access"`
	AllowOut    []string        `json:"allowOut"`
	DenyOut     []string        `json:"denyOut"`
	Rules       wireRules       `json:"rules"`
	EgressProxy json.RawMessage `json:"egressProxy"`
}

// egress is the part about what goes out.
func (c *networkConfig) egress() networkUpdate {
	if c == nil {
		return networkUpdate{}
	}
	return networkUpdate{AllowOut: c.AllowOut, DenyOut: c.DenyOut, Rules: c.Rules, EgressProxy: c.EgressProxy}
}

// check refuses what Hortus never has, about what comes in and what goes out.
func (c *networkConfig) check() error {
	switch {
	case c == nil:
		return nil
	case c.MaskHost != nil && *c.MaskHost != "":
		return refused("network.maskRequestHost", "requests reach a sandbox with the client's Host header")
	case len(c.HTTPSPorts) > 0:
		return refused("network.httpsPorts", "ports support plain HTTP only")
	}
	return c.egress().never()
}

// never refuses what Hortus never has, about what goes out.
func (u networkUpdate) never() error {
	if isSet(u.EgressProxy) {
		return refused("network.egressProxy", "the operator of the daemon sets the proxy of outgoing connections, not a sandbox")
	}
	return nil
}

// asks reports whether a client requested something.
func (u networkUpdate) asks() bool {
	return u.Internet != nil || len(u.AllowOut) > 0 || len(u.DenyOut) > 0
}

// option names what was requested, for errors about it.
func (u networkUpdate) option() string {
	switch {
	case !u.asks() && len(u.Rules) > 0:
		return "network.rules"
	case len(u.AllowOut) > 0:
		return "network.allowOut"
	case u.Internet == nil && len(u.DenyOut) > 0:
		return "network.denyOut"
	}
	return "allow_internet_access"
}

// ofHost checks what was requested of a sandbox that shares this machine's network: it is open
// and cannot be restricted.
func (u networkUpdate) ofHost() error {
	if len(u.Rules) > 0 {
		return refused("network.rules", "a sandbox with this isolation shares the network of its host, so no header can be set")
	}
	if u.asks() && (u.Internet == nil || !*u.Internet || len(u.AllowOut) > 0 || len(u.DenyOut) > 0) {
		return refused(u.option(), "a sandbox with this isolation shares the network of its host, which cannot be restricted")
	}
	return nil
}

// policyOf maps what was requested to a policy. What the client leaves out is the default.
func (d sandboxes) policyOf(u networkUpdate) (api.EgressPolicy, error) {
	internet := d.internet
	if u.Internet != nil {
		internet = *u.Internet
	}
	if d.policy == nil || d.egress == nil {
		if internet || len(u.AllowOut) > 0 {
			return api.EgressPolicy{}, refused(u.option(), "this daemon does not serve outgoing connections of sandboxes")
		}
		return api.EgressPolicy{}, nil
	}
	p, err := d.policy(&internet, u.AllowOut, u.DenyOut)
	if err == nil {
		return p, nil
	}
	e := api.Errorf(api.KindOf(err), "option network.%w", err)
	if hint := api.HintOf(err); hint != "" {
		e = e.WithHint("%s", hint)
	}
	return p, e
}

// egressOf returns the policy of a request for a sandbox; nil leaves it to the template, or where
// the sandbox has its host's network.
func (d sandboxes) egressOf(ctx context.Context, req api.CreateSandbox, u networkUpdate) (*api.EgressPolicy, error) {
	if !u.asks() && !d.internet {
		return nil, nil
	}
	s, err := d.Sandboxes.Outline(ctx, req)
	switch {
	case err != nil:
		return nil, err
	case s.Egress == api.EgressHost:
		return nil, u.ofHost()
	case !u.asks() && s.EgressPolicy != nil: // the template has a policy
		return nil, nil
	}
	p, err := d.policyOf(u)
	return &p, err
}

// setNetwork replaces what a sandbox may reach. What is left out is the default again.
func (d sandboxes) setNetwork(w http.ResponseWriter, r *http.Request, s api.Sandbox) error {
	var in networkUpdate
	if err := decodeAny(w, r, &in); err != nil {
		return err
	}
	if err := in.never(); err != nil {
		return err
	}
	headers, err := in.Rules.headers()
	if err != nil {
		return err
	}
	if s.Egress == api.EgressHost {
		return done(w, in.ofHost())
	}
	p, err := d.policyOf(in)
	if err != nil {
		return err
	}
	switch {
	case d.egress == nil && len(headers) > 0:
		return refused("network.rules", "this daemon does not serve outgoing connections of sandboxes")
	case d.egress == nil: // nothing can be opened, so it holds already
		return done(w, nil)
	}
	p.Headers = headers
	_, err = d.egress.SetEgress(r.Context(), s.ID, p)
	return done(w, withRules(headers, withEgress(in.option(), err)))
}

// withEgress names the option in an error about what the sandbox's backend cannot open.
func withEgress(option string, err error) error {
	if err == nil || !strings.Contains(err.Error(), "(capability "+string(api.CapEgress)+")") {
		return err
	}
	return withOption(option, err)
}

// hasInternet reports whether a sandbox may connect to every host.
func hasInternet(s api.Sandbox) bool {
	if s.Egress == api.EgressHost {
		return true
	}
	if s.EgressPolicy == nil {
		return false
	}
	for _, r := range s.EgressPolicy.Rules {
		if r.Host == "*" && len(r.Methods) == 0 && len(r.Paths) == 0 {
			return r.Action == api.EgressAllow
		}
	}
	return false
}

// networkOf is what is shown of a sandbox's network: rules of its policy as far as the wire has
// words for them.
func networkOf(s api.Sandbox) network {
	out := network{PublicTraffic: !s.PrivateTraffic}
	if s.EgressPolicy == nil {
		return out
	}
	out.Rules = rulesOf(s.EgressPolicy.Headers)
	for _, r := range s.EgressPolicy.Rules {
		switch {
		case r.Host == "*" || len(r.Methods) > 0 || len(r.Paths) > 0:
		case r.Action == api.EgressAllow:
			out.AllowOut = append(out.AllowOut, r.Host)
		default:
			out.DenyOut = append(out.DenyOut, r.Host)
		}
	}
	return out
}

// wireRules are the rules for the requests to hosts.
type wireRules map[string][]wireRule

type wireRule struct {
	Transform *transform `json:"transform,omitempty"`
}

type transform struct {
	Headers map[string]string `json:"headers,omitempty"`
}

// References in values of the wire, and in those of Hortus.
const (
	wireSecret   = "${e2b.secrets."
	wireIdentity = "${e2b.identity."
	wireAny      = "${e2b."
	ownSecret    = "${secret:"
)

// headers returns the rules as those of Hortus. Its errors name the option.
func (w wireRules) headers() (out []api.HeaderRule, err error) {
	for host, list := range w {
		invalid := func(format string, args ...any) error {
			return api.Errorf(api.KindInvalid, `option "network.rules": host %.130q: `+format, append([]any{host}, args...)...)
		}
		if len(list) > 1 {
			return nil, invalid("%d rules; one is possible", len(list))
		}
		rule := api.HeaderRule{Host: host, Headers: map[string]string{}}
		if len(list) == 1 && list[0].Transform != nil {
			for name, value := range list[0].Transform.Headers {
				if strings.Contains(value, wireIdentity) {
					return nil, refused("network.rules", "host %.130q: header %.80q has a token of iam, and workload identity is not supported", host, name)
				}
				if rule.Headers[name], err = ownValue(value); err != nil {
					return nil, invalid("header %.80q: %w", name, err)
				}
			}
		}
		out = append(out, rule)
	}
	if err := secrets.CheckHeaders(out); err != nil {
		return nil, api.Errorf(api.KindInvalid, `option "network.rules": %w`, err).WithHint("%s", api.HintOf(err))
	}
	return out, nil
}

// ownValue returns a header's value as Hortus writes it.
func ownValue(value string) (string, error) {
	if strings.Contains(value, "${secret") {
		return "", api.Errorf(api.KindInvalid, "the text ${secret cannot be sent")
	}
	var out strings.Builder
	for {
		text, rest, found := strings.Cut(value, wireSecret)
		if strings.Contains(text, wireAny) {
			return "", api.Errorf(api.KindInvalid, "it has a reference that is not known; a secret is %sNAME}", wireSecret)
		}
		out.WriteString(text)
		if !found {
			return out.String(), nil
		}
		raw, behind, closed := strings.Cut(rest, "}")
		name, ok := secretName(raw)
		if !closed || !ok {
			return "", api.Errorf(api.KindInvalid, "it has a reference without the name of a secret; a secret is %sNAME}", wireSecret)
		}
		out.WriteString(ownSecret + name + "}")
		value = behind
	}
}

// rulesOf returns rules of Hortus as the wire has them, as far as it has words for them: nil if
// there are none.
func rulesOf(rules []api.HeaderRule) wireRules {
	var out wireRules
	for _, r := range rules {
		if r.Port != 0 && r.Port != 443 {
			continue
		}
		if out == nil {
			out = wireRules{}
		}
		list := []wireRule{}
		if len(r.Headers) > 0 {
			t := &transform{Headers: map[string]string{}}
			for name, value := range r.Headers {
				t.Headers[name] = strings.ReplaceAll(value, ownSecret, wireSecret)
			}
			list = append(list, wireRule{t})
		}
		out[r.Host] = list
	}
	return out
}

// withRules names the option in an error about header rules.
func withRules(rules []api.HeaderRule, err error) error {
	if err == nil || len(rules) == 0 || strings.HasPrefix(err.Error(), "option ") {
		return err
	}
	kind := api.KindOf(err)
	switch {
	case kind == api.KindUnsupported:
	case kind != api.KindInvalid && kind != api.KindNotFound && kind != api.KindDenied || !strings.HasPrefix(err.Error(), "header rule"):
		return err
	default:
		kind = api.KindInvalid // it is about the option, and not about a template or the caller
	}
	return api.Errorf(kind, `option "network.rules": %w`, err).WithHint("%s", api.HintOf(err))
}
