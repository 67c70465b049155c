package outgoing

import (
	"context"
	"maps"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
)

// Policies resolves the policies of requests. Without a Server every policy that opens anything
// is refused.
type Policies struct {
	Server sandbox.EgressServer
}

// Request is what was requested for one sandbox.
type Request struct {
	// Policy is nil where none was requested, and then Default counts.
	Policy, Default *api.EgressPolicy
	// Ceiling is what [Policies.Ceiling] returned for the sandbox; nil for none.
	Ceiling *api.EgressPolicy
	// Secrets are secrets of Account that the sandbox may use, and Headers are rules beside those
	// of the policy. Account owns the sandbox.
	Secrets []api.SecretGrant
	Headers []api.HeaderRule
	Account string
	// Had is the policy that the sandbox had, or that of its parent, if the secrets are not new: their rules are kept.
	Had *api.EgressPolicy
}

// Resolved is the policy of a sandbox. The zero value denies everything.
type Resolved struct {
	// Policy is nil if none was requested and there is no default.
	Policy  *api.EgressPolicy
	Ceiling *api.EgressPolicy
	// Env are the environment variables of the policy's presets.
	Env map[string]string
	// Requested is true if the policy is not a default.
	Requested bool
	// Secrets are what the sandbox may use.
	Secrets []api.SecretGrant
}

// Resolve validates a policy, and appends the rules of its presets.
//
// Errors: KindInvalid for an invalid policy; KindUnsupported, naming the capability, for one that
// opens anything without a Server; KindExhausted for a maximum above that of the ceiling.
func (p Policies) Resolve(ctx context.Context, req Request) (Resolved, error) {
	out := Resolved{Policy: req.Policy, Ceiling: req.Ceiling, Requested: req.Policy != nil || len(req.Secrets) > 0, Secrets: req.Secrets}
	if req.Policy == nil {
		out.Policy = withoutHeaders(req.Default)
	}
	if out.Policy == nil && len(req.Secrets)+len(req.Headers) > 0 {
		out.Policy = &api.EgressPolicy{}
	}
	if out.Policy == nil {
		return out, nil
	}
	policy := *out.Policy
	policy.Headers = slices.Concat(policy.Headers, req.Headers)
	if err := policy.CheckBounds(); err != nil {
		return out, err
	}
	if err := p.headers(ctx, &policy, req); err != nil {
		return out, err
	}
	if policy.Opens() && p.Server == nil {
		return out, api.Errorf(api.KindUnsupported, "this daemon does not serve outgoing connections of sandboxes (capability %s)", api.CapEgress)
	}
	if out.Requested {
		if err := exceeds(policy, out.Ceiling); err != nil {
			return out, err
		}
	}
	secrets, err := p.secrets(ctx, &policy, req)
	if err != nil {
		return out, err
	}
	if p.Server != nil {
		if policy, out.Env, err = p.Server.Resolve(ctx, policy); err != nil {
			return out, err
		}
	}
	out.Env = merged(out.Env, secrets)
	policy = Limited(policy, out.Ceiling)
	out.Policy = &policy
	return out, nil
}

// Ceiling validates a ceiling and appends the rules of its presets. nil stays nil.
func (p Policies) Ceiling(ctx context.Context, c *api.EgressPolicy) (*api.EgressPolicy, error) {
	if c == nil || p.Server == nil {
		return c, nil
	}
	full, _, err := p.Server.Resolve(ctx, *c)
	if err != nil {
		return nil, api.Errorf(api.KindOf(err), "the egress ceiling of this API key: %w", err)
	}
	return &full, nil
}

// exceeds refuses maxima above those of a ceiling, which may be nil. Rules are limited when a
// connection is made.
func exceeds(p api.EgressPolicy, c *api.EgressPolicy) error {
	const refusal = "the ceiling \"egress\" of this API key: %s of %d was requested, the maximum is %d"
	switch {
	case c == nil:
	case c.MaxConnections > 0 && p.MaxConnections > c.MaxConnections:
		return api.Errorf(api.KindExhausted, refusal, "maxConnections", p.MaxConnections, c.MaxConnections)
	case c.MaxBytes > 0 && p.MaxBytes > c.MaxBytes:
		return api.Errorf(api.KindExhausted, refusal, "maxBytes", p.MaxBytes, c.MaxBytes)
	}
	return nil
}

// Limited returns a policy with maxima that are not above those of a ceiling, which may be nil.
func Limited(p api.EgressPolicy, c *api.EgressPolicy) api.EgressPolicy {
	if c == nil {
		return p
	}
	if most := c.MaxConnections; most > 0 && (p.MaxConnections > most || p.MaxConnections == 0 && most < api.DefaultEgressConnections) {
		p.MaxConnections = most
	}
	if most := c.MaxBytes; most > 0 && (p.MaxBytes > most || p.MaxBytes == 0) {
		p.MaxBytes = most
	}
	return p
}

// Opens reports whether the policy allows anything, or asks about it.
func (r Resolved) Opens() bool { return r.Policy != nil && r.Policy.Opens() }

// Needs are the capabilities that the policy needs of a backend.
func (r Resolved) Needs() (out []api.Capability) {
	if r.Requested || r.setsHeaders() {
		out = append(out, api.CapNoNetwork)
	}
	if r.Opens() {
		out = append(out, api.CapEgress)
	}
	return out
}

// Check refuses a policy that a backend with this report cannot enforce: KindUnsupported.
func (r Resolved) Check(report api.BackendReport) error {
	if sandbox.EgressOf(report).Host {
		if r.Requested || r.setsHeaders() {
			return hostNetwork(report.Backend)
		}
		return nil
	}
	if !r.Opens() {
		return nil
	}
	a, ok := report.Has(api.CapEgress)
	if ok {
		switch a.Grade {
		case api.EgressByHost:
			return nil
		case api.EgressByEngine:
			if !r.needsHost() {
				return nil
			}
			a.Reason = "its engine filters connections by name and port; the rest of this policy is for the host to enforce"
		default:
			a.Reason = "its report does not say who enforces a policy"
		}
	}
	err := api.Errorf(api.KindUnsupported, "the %s backend cannot open outgoing connections on this host: %s (capability %s)", report.Backend, a.Reason, api.CapEgress)
	if a.Fix != "" {
		err = err.WithHint("%s", a.Fix)
	}
	return err
}

// needsHost reports whether the policy has anything but names and ports of which no byte is read:
// secrets, headers, questions, maximums, a ceiling, what is read in a request, and the identity of a
// server, which the host checks unless a rule is of the class tcp.
func (r Resolved) needsHost() bool {
	p := r.Policy
	return len(r.Secrets) > 0 || r.Ceiling != nil || len(p.Headers) > 0 || p.Ask || p.MaxConnections > 0 || p.MaxBytes > 0 ||
		slices.ContainsFunc(p.Rules, func(rule api.EgressRule) bool {
			return rule.Action != api.EgressDeny && rule.Class != api.EgressTCP || len(rule.Methods) > 0 || len(rule.Paths) > 0 || rule.Private
		})
}

func hostNetwork(backend string) error {
	return api.Errorf(api.KindUnsupported, "a sandbox of the %s backend has the network of its host, which no egress policy can restrict", backend).
		WithHint("use another isolation, such as --isolation auto")
}

// Set writes the policy into a row, unless the sandbox has its host's network.
func (r Resolved) Set(row *api.Sandbox) {
	row.MaxEgress, row.Secrets = r.Ceiling, began(r.Secrets, row.CreatedAt)
	if row.Egress == api.EgressHost {
		return
	}
	row.Egress, row.EgressPolicy = api.EgressNone, nil
	if r.Policy != nil && !r.Policy.IsZero() {
		row.EgressPolicy = r.Policy
	}
	if r.Opens() {
		row.Egress = api.EgressRules
	}
}

// Environment returns the variables of the presets, and those of a request, which come first.
func (r Resolved) Environment(env map[string]string) map[string]string {
	if len(r.Env) == 0 {
		return env
	}
	out := maps.Clone(r.Env)
	maps.Copy(out, env)
	return out
}

// noRetries make package managers fail at once instead of trying again for a minute.
var noRetries = map[string]string{"npm_config_fetch_retries": "0", "PIP_RETRIES": "0"}

// CommandEnvironment returns the variables of a sandbox's commands, by its row: those of its own,
// below them those of its template, and below them, if it has no network, those with which package
// managers do not wait for one.
func CommandEnvironment(row api.Sandbox) map[string]string {
	if row.Egress != api.EgressNone && row.Defaults == nil {
		return row.Env
	}
	out := map[string]string{}
	if row.Egress == api.EgressNone {
		maps.Copy(out, noRetries)
	}
	if row.Defaults != nil {
		maps.Copy(out, row.Defaults.Env)
	}
	maps.Copy(out, row.Env)
	return out
}

// Inherited is the policy of a sandbox that starts with the state of another, in a row that is
// copied from the other's, with the ceiling of the caller's key. It may use some of the secrets, and
// has the header rules whose secrets are all among names.
func Inherited(row api.Sandbox, secrets []api.SecretGrant, names []string, ceiling *api.EgressPolicy) Resolved {
	out := Resolved{Ceiling: ceiling, Secrets: secrets}
	if row.EgressPolicy != nil {
		p := Limited(*row.EgressPolicy, ceiling)
		p.Rules, p.Headers = withoutSecrets(p.Rules, secrets), headersOf(p.Headers, names)
		out.Policy = &p
	}
	return out
}
