package policy

import (
	"net/netip"
	"strings"

	"hortus.dev/api"
)

// host is the host of a rule: every host, the names below one, one name, or addresses.
type host struct {
	any    bool
	below  string // "example.org" of "*.example.org"
	name   string
	prefix netip.Prefix // an address is a prefix of all its bits
}

func parseHost(s string) (host, error) {
	if s == "*" {
		return host{any: true}, nil
	}
	if rest, ok := strings.CutPrefix(s, "*."); ok && !strings.Contains(rest, "*") {
		n, err := Normalize(rest)
		if err != nil {
			return host{}, api.Errorf(api.KindInvalid, "the wildcard %.80q is not one of a name: %w", s, err).
				WithHint("Write a wildcard as *.example.org.")
		}
		if len(n)+2 > maxName {
			return host{}, api.Errorf(api.KindInvalid, "no name is below %.80q...: it would be longer than %d bytes", rest, maxName)
		}
		return host{below: n}, nil
	}
	if strings.Contains(s, "*") {
		return host{}, api.Errorf(api.KindInvalid, "the wildcard in %.80q is not the whole leftmost label", s).
			WithHint("Write a wildcard as *.example.org, or * for every host.")
	}
	if strings.Contains(s, "/") {
		return parseRange(s)
	}
	if addr, err := netip.ParseAddr(s); err == nil {
		if addr.Zone() != "" {
			return host{}, api.Errorf(api.KindInvalid, "the address %.80q has a zone, which only its own machine knows", s)
		}
		addr = addr.Unmap()
		return host{prefix: netip.PrefixFrom(addr, addr.BitLen())}, nil
	}
	n, err := Normalize(s)
	return host{name: n}, err
}

func parseRange(s string) (host, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return host{}, api.Errorf(api.KindInvalid, "%.80q is not a range of addresses", s).
			WithHint("Write a range as 192.0.2.0/24 or 2001:db8::/32.")
	}
	if p.Addr().Is4In6() {
		return host{}, api.Errorf(api.KindInvalid, "the range %.80q is one of IPv4 addresses in IPv6", s).
			WithHint("Write it as a range of IPv4 addresses, such as 192.0.2.0/24.")
	}
	if p != p.Masked() {
		return host{}, api.Errorf(api.KindInvalid, "the range %.80q begins with an address inside of it", s).
			WithHint("Write %s for the range, or %s for the address.", p.Masked(), p.Addr())
	}
	return host{prefix: p}, nil
}

// addresses reports whether the host is an address or a range.
func (h host) addresses() bool { return h.prefix.IsValid() }

// String returns the host in canonical text, as a rule has it.
func (h host) String() string {
	switch {
	case h.any:
		return "*"
	case h.below != "":
		return "*." + h.below
	case h.addresses() && h.prefix.IsSingleIP():
		return h.prefix.Addr().String()
	case h.addresses():
		return h.prefix.String()
	}
	return h.name
}
