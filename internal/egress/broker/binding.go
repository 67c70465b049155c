package broker

import (
	"net"
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/egress/policy"
)

// binding is a binding that was checked.
type binding struct {
	secrets.Binding
	number int            // from 1
	rule   *policy.Policy // allows the requests of the binding
}

func (b *binding) origin() origin { return origin{b.Scheme, b.Host, b.Port} }

// compile checks a grant.
func compile(g Grant) (*grant, error) {
	out := &grant{placeholder: g.Placeholder, name: g.Secret.Name, signer: g.Secret.Signer, budgets: g.Secret.Budgets, endsAt: g.EndsAt}
	for i, b := range g.Secret.Bindings {
		b = b.WithDefaults()
		t, err := policy.NewTarget(b.Host, b.Port)
		if err != nil {
			return nil, api.Errorf(api.KindInvalid, "secret %.80q: binding %d: %w", g.Secret.Name, i+1, err)
		}
		b.Host = t.Host
		rule, err := policy.Compile(api.EgressPolicy{Rules: []api.EgressRule{{
			Action: api.EgressAllow, Host: b.Host, Ports: strconv.Itoa(b.Port), Methods: b.Methods, Paths: b.Paths,
		}}}, nil)
		if err != nil {
			return nil, api.Errorf(api.KindInvalid, "secret %.80q: binding %d: %w", g.Secret.Name, i+1, err)
		}
		out.bindings = append(out.bindings, binding{Binding: b, number: i + 1, rule: rule})
	}
	return out, nil
}

// place is where in a request a placeholder was found.
type place struct {
	secrets.Place
	// other is the description of a place that no binding can have; empty for one that can.
	other string
}

func (p place) String() string {
	switch {
	case p.other != "":
		return p.other
	case p.Kind == secrets.InBasic:
		return "basic authentication"
	case p.Kind == secrets.InQuery:
		return "the query parameter " + clip(p.Name, 80)
	}
	return "the header " + clip(p.Name, 80)
}

// is reports whether a place is that of a binding.
func (p place) is(b secrets.Place) bool {
	switch {
	case p.other != "" || p.Kind != b.Kind:
		return false
	case p.Kind == secrets.InHeader:
		return strings.EqualFold(p.Name, b.Name)
	case p.Kind == secrets.InQuery:
		return p.Name == b.Name
	}
	return true
}

// query is a request as bindings are compared with it.
type query struct {
	scheme       string
	target       policy.Target
	method, path string
	place        place
}

// match returns the one binding of a grant that a request matches, or why there is none.
func (g *grant) match(q query) (*binding, string) {
	var found *binding
	host, request := false, false
	reason := ""
	for i := range g.bindings {
		b := &g.bindings[i]
		if (origin{q.scheme, q.target.Host, q.target.Port}) != b.origin() {
			continue
		}
		host = true
		if v := b.rule.Request(q.target, q.method, q.path); !v.Allow {
			reason = v.Reason
			continue
		}
		request = true
		if !q.place.is(b.In) {
			continue
		}
		if found != nil {
			return nil, "more than one of its bindings match the request"
		}
		found = b
	}
	switch {
	case found != nil:
		return found, ""
	case request:
		return nil, "it may not be used in " + q.place.String()
	case host && reason == policy.ReasonPath:
		return nil, reason
	case host:
		return nil, "it may not be used with this method and path"
	}
	return nil, "it may not be used for " + q.scheme + "://" + net.JoinHostPort(q.target.Host, strconv.Itoa(q.target.Port))
}
