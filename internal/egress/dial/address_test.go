package dial

import (
	"net/netip"
	"testing"
)

func TestClassify(t *testing.T) {
	own := []netip.Addr{netip.MustParseAddr("203.0.113.9"), netip.MustParseAddr("2001:db8::9")}
	for _, c := range []struct {
		addr string
		want kind
	}{
		{"8.8.8.8", public}, {"1.1.1.1", public}, {"172.15.0.1", public}, {"172.32.0.1", public}, {"100.63.0.1", public},
		{"192.0.2.1", public}, {"198.51.100.1", public}, {"203.0.113.1", public}, {"2001:db8::1", public}, {"2606:4700::1111", public},
		{"10.1.2.3", private}, {"172.16.0.1", private}, {"172.31.255.255", private}, {"192.168.1.1", private}, {"100.64.0.1", private},
		{"100.127.255.255", private}, {"127.0.0.1", private}, {"127.9.9.9", private}, {"198.18.0.1", private}, {"198.19.255.255", private},
		{"::1", private}, {"fc00::1", private}, {"fd12:3456::1", private}, {"fec0::1", private}, {"64:ff9b:1::1", private},
		{"203.0.113.9", private}, {"2001:db8::9", private},
		{"169.254.169.254", sensitive}, {"169.254.0.1", sensitive}, {"fe80::1", sensitive}, {"fd00:ec2::254", sensitive},
		{"100.100.100.200", sensitive}, {"168.63.129.16", sensitive}, {"192.0.0.192", sensitive},
		{"0.0.0.0", unusable}, {"0.1.2.3", unusable}, {"224.0.0.1", unusable}, {"239.255.255.250", unusable}, {"240.0.0.1", unusable},
		{"255.255.255.255", unusable}, {"192.0.0.1", unusable}, {"::", unusable}, {"ff02::1", unusable}, {"4000::1", unusable}, {"100::1", unusable},
		{"fe80::1%eth0", unusable}, {"2606:4700::1111%1", unusable},
		// IPv4-mapped, IPv4-compatible, NAT64, 6to4 and Teredo.
		{"::ffff:8.8.8.8", public}, {"::ffff:10.0.0.1", private}, {"::ffff:169.254.169.254", sensitive}, {"::ffff:0.0.0.0", unusable},
		{"::127.0.0.1", unusable}, {"::8.8.8.8", unusable},
		{"64:ff9b::8.8.8.8", public}, {"64:ff9b::10.0.0.1", private}, {"64:ff9b::169.254.169.254", sensitive}, {"64:ff9b::203.0.113.9", private},
		{"2002:0808:0808::1", public}, {"2002:7f00:0001::1", private}, {"2002:a9fe:a9fe::1", sensitive},
		{"2001:0:1:2:3:4:f7f7:f7f7", public}, {"2001:0:1:2:3:4:f5ff:fffe", private}, {"2001:0:1:2:3:4:5601:5601", sensitive},
	} {
		if got, name := newTable().classify(netip.MustParseAddr(c.addr), own); got != c.want {
			t.Errorf("%s: kind %d (%s), want %d", c.addr, got, name, c.want)
		}
	}
	if got, _ := newTable().classify(netip.Addr{}, nil); got != unusable {
		t.Errorf("no address: %d", got)
	}
}

func TestOpened(t *testing.T) {
	for _, c := range []struct {
		kind             kind
		private, literal bool
		want             bool
	}{
		{public, false, false, true}, {public, true, true, true},
		{private, false, false, false}, {private, false, true, false}, {private, true, false, true}, {private, true, true, true},
		{sensitive, false, true, false}, {sensitive, true, false, false}, {sensitive, true, true, true},
		{unusable, true, true, false},
	} {
		if got := opened(c.kind, c.private, c.literal); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// FuzzClassify checks that no form of a refused IPv4 address is public.
func FuzzClassify(f *testing.F) {
	f.Add([]byte{127, 0, 0, 1})
	f.Add(netip.MustParseAddr("2002:7f00:1::").AsSlice())
	tab := newTable()
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, ok := netip.AddrFromSlice(raw)
		if !ok {
			return
		}
		k, name := tab.classify(a, nil)
		if (k == public) != (name == "") {
			t.Fatalf("%s: kind %d, %q", a, k, name)
		}
		if k == public && (a.IsPrivate() || a.IsLoopback() || a.IsMulticast() || a.IsLinkLocalUnicast() || a.IsUnspecified() || !a.IsGlobalUnicast()) {
			t.Fatalf("%s is public", a)
		}
		if !a.Is4() {
			return
		}
		b := a.As4()
		nat := netip.AddrFrom16([16]byte{0, 0x64, 0xff, 0x9b, 12: b[0], 13: b[1], 14: b[2], 15: b[3]})
		six := netip.AddrFrom16([16]byte{0x20, 0x02, b[0], b[1], b[2], b[3]})
		teredo := netip.AddrFrom16([16]byte{0x20, 0x01, 12: ^b[0], 13: ^b[1], 14: ^b[2], 15: ^b[3]})
		for _, form := range []netip.Addr{netip.AddrFrom16(a.As16()), nat, six, teredo} {
			if got, _ := tab.classify(form, nil); got != k {
				t.Fatalf("%s is of kind %d, %s of %d", a, k, form, got)
			}
		}
	})
}
