package dial

import "net/netip"

// kind is what an address is, as far as it matters to a sandbox.
type kind int

const (
	public kind = iota
	// private are the addresses of the operator's networks, and loopback. A rule with
	// "private" opens them.
	private
	// sensitive are link-local addresses and those of metadata services. Only a rule for
	// the address itself opens them.
	sensitive
	// unusable are addresses that are not those of one host. Nothing opens them.
	unusable
)

// block is a range of addresses and what it is for.
type block struct {
	prefix string
	kind   kind
	name   string
}

// blocks are tried in order; the first one that contains an address decides. The ranges for
// documentation (TEST-NET) are public: nothing of the operator is there.
func blocks() []block {
	return []block{
		// Metadata services first: some are inside ranges below, some are public.
		{"169.254.169.254/32", sensitive, "the address of a metadata service"},
		{"169.254.170.2/32", sensitive, "the address of a metadata service"},
		{"169.254.170.23/32", sensitive, "the address of a metadata service"},
		{"100.100.100.200/32", sensitive, "the address of a metadata service"},
		{"168.63.129.16/32", sensitive, "the address of a metadata service"},
		{"192.0.0.192/32", sensitive, "the address of a metadata service"},
		{"fd00:ec2::254/128", sensitive, "the address of a metadata service"},
		{"fd00:ec2::23/128", sensitive, "the address of a metadata service"},
		{"fd20:ce::254/128", sensitive, "the address of a metadata service"},

		{"0.0.0.0/8", unusable, "a reserved address"},
		{"10.0.0.0/8", private, "a private address"},
		{"100.64.0.0/10", private, "a private address"},
		{"127.0.0.0/8", private, "a loopback address"},
		{"169.254.0.0/16", sensitive, "a link-local address"},
		{"172.16.0.0/12", private, "a private address"},
		{"192.0.0.0/24", unusable, "a reserved address"},
		{"192.168.0.0/16", private, "a private address"},
		{"198.18.0.0/15", private, "a private address"},
		{"224.0.0.0/4", unusable, "a multicast address"},
		{"255.255.255.255/32", unusable, "the broadcast address"},
		{"240.0.0.0/4", unusable, "a reserved address"},
		{"0.0.0.0/0", public, ""},

		{"::/128", unusable, "the unspecified address"},
		{"::1/128", private, "a loopback address"},
		{"fc00::/7", private, "a private address"},
		{"fec0::/10", private, "a private address"},
		{"fe80::/10", sensitive, "a link-local address"},
		{"ff00::/8", unusable, "a multicast address"},
		// Local translation to IPv4: which addresses it reaches is not known.
		{"64:ff9b:1::/48", private, "a private address"},
		{"2000::/3", public, ""},
		{"::/0", unusable, "a reserved address"},
	}
}

// table is blocks with parsed prefixes.
type table []parsedBlock

type parsedBlock struct {
	netip.Prefix
	kind kind
	name string
}

func newTable() table {
	var t table
	for _, b := range blocks() {
		t = append(t, parsedBlock{netip.MustParsePrefix(b.prefix), b.kind, b.name})
	}
	return t
}

// classify returns the kind of an address, and its name for a message. own are the addresses
// of this host. An IPv4 address inside an IPv6 one decides, if there is one.
func (t table) classify(a netip.Addr, own []netip.Addr) (kind, string) {
	if !a.IsValid() || a.Zone() != "" {
		return unusable, "not an address of one host"
	}
	a = a.Unmap()
	for _, o := range own {
		if o.Unmap().WithZone("") == a {
			if k, name := t.lookup(a); k != public {
				return k, name
			}
			return private, "an address of this host"
		}
	}
	if inner, ok := embedded(a); ok {
		return t.classify(inner, own)
	}
	return t.lookup(a)
}

func (t table) lookup(a netip.Addr) (kind, string) {
	for _, b := range t {
		if b.Contains(a) {
			return b.kind, b.name
		}
	}
	return unusable, "a reserved address"
}

// embedded returns the IPv4 address to which packets to an IPv6 address are translated or
// tunnelled: NAT64, 6to4 and Teredo. IPv4-mapped ones are unmapped before.
func embedded(a netip.Addr) (netip.Addr, bool) {
	if !a.Is6() {
		return netip.Addr{}, false
	}
	b := a.As16()
	v4 := func(at int) netip.Addr { return netip.AddrFrom4([4]byte(b[at : at+4])) }
	switch {
	case [12]byte(b[:12]) == [12]byte{0x00, 0x64, 0xff, 0x9b}:
		return v4(12), true
	case b[0] == 0x20 && b[1] == 0x02:
		return v4(2), true
	case [4]byte(b[:4]) == [4]byte{0x20, 0x01}:
		for i := 12; i < 16; i++ {
			b[i] ^= 0xff
		}
		return v4(12), true
	}
	return netip.Addr{}, false
}
