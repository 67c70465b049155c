package policy

import (
	"net/netip"
	"strings"

	"hortus.dev/api"
)

const (
	// maxE2B is the maximum number of entries of allowOut and denyOut together.
	maxE2B = maxRules - 2
	// allE2B is E2B's ALL_TRAFFIC.
	allE2B = "0.0.0.0/0"
)

// FromE2B maps the network settings of E2B's API to a policy. As in E2B:
//
//   - Everything is allowed unless it is denied; allow_internet_access: false is denyOut with
//     0.0.0.0/0. A nil allowInternet is true. A caller whose default is another one must not
//     call FromE2B for a request that sets nothing.
//   - An entry of allowOut has priority over denyOut, whatever their order.
//   - denyOut has addresses and ranges only. allowOut has names ("example.com"), names below
//     one ("*.example.com") and "*" too, which need denyOut with 0.0.0.0/0.
//   - A name is allowed on ports 80 and 443, where the host can see it. E2B decides about other
//     ports by address.
//
// It differs from E2B in this:
//
//   - An address of allowOut allows connections to the address. A name that resolves to it must
//     be allowed itself, because the host decides about a name before it resolves it. An
//     address of denyOut denies names that resolve to it if the caller uses Policy.Resolved.
//   - Without restrictions, ports 80 and 443 of names are HTTP and TLS that the host reads.
//   - Private addresses are never allowed, also with 0.0.0.0/0 or 10.0.0.0/8 in allowOut:
//     Private is not set, and who dials refuses them.
func FromE2B(allowInternet *bool, allowOut, denyOut []string) (api.EgressPolicy, error) {
	if n := len(allowOut) + len(denyOut); n > maxE2B {
		return api.EgressPolicy{}, api.Errorf(api.KindInvalid, "allowOut and denyOut have %d entries, the maximum is %d", n, maxE2B)
	}
	open := allowInternet == nil || *allowInternet
	var deny []api.EgressRule
	for _, s := range denyOut {
		host, isAddress, err := hostE2B(s)
		if err != nil || !isAddress {
			return api.EgressPolicy{}, api.Errorf(api.KindInvalid, "denyOut: %.80q is not an IP address or CIDR range", s).
				WithHint("Names can only be allowed: put them into allowOut, and %s into denyOut.", allE2B)
		}
		if host == allE2B {
			open = false
		}
		deny = append(deny, api.EgressRule{Action: api.EgressDeny, Host: host})
	}
	var allow []api.EgressRule
	allowAll := false
	for _, s := range allowOut {
		host, isAddress, err := hostE2B(s)
		switch {
		case err != nil:
			return api.EgressPolicy{}, api.Errorf(api.KindInvalid, "allowOut: %.80q is not an IP address, CIDR range or name: %w", s, err).
				WithHint("%s", api.HintOf(err))
		case host == allE2B:
			allowAll = true
		case isAddress:
			allow = append(allow, api.EgressRule{Action: api.EgressAllow, Host: host, Class: api.EgressTCP})
		case open:
			return api.EgressPolicy{}, api.Errorf(api.KindInvalid, "allowOut has the name %.80q, and denyOut does not deny the rest", s).
				WithHint("Put %s into denyOut.", allE2B)
		default:
			allow = append(allow, api.EgressRule{Action: api.EgressAllow, Host: host, Ports: "80,443"})
		}
	}
	switch {
	case allowAll:
		// It has priority over all that is denied.
		return api.EgressPolicy{Rules: append(allow, allRules()...)}, nil
	case open:
		return api.EgressPolicy{Rules: append(append(allow, deny...), allRules()...)}, nil
	}
	return api.EgressPolicy{Rules: append(allow, deny...)}, nil
}

// hostE2B returns an entry as the host of a rule, and whether it is an address or a range.
func hostE2B(s string) (host string, isAddress bool, err error) {
	if p, err := netip.ParsePrefix(s); err == nil && !p.Addr().Is4In6() {
		return p.Masked().String(), true, nil // E2B allows 10.1.2.3/8
	}
	h, err := parseHost(strings.TrimSpace(s))
	if err != nil {
		return "", false, err
	}
	return h.String(), h.addresses(), nil
}
