package gvisor

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
)

// Sizes of the kernel's structures for address translation, in bytes. gVisor reads them in the
// format that iptables uses: struct ipt_replace, followed by entries, each of which is a struct
// ipt_entry, matches and a target.
const (
	replaceSize  = 96
	entrySize    = 112
	matchSize    = 32 + 16 // header of an extension, and struct xt_udp with its padding
	verdictSize  = 40
	redirectSize = 56
	errorSize    = 64
)

// Offsets in these structures.
const (
	replaceHooks, replaceEntries, replaceSizeAt, replaceEntry, replaceUnderflow = 32, 36, 40, 44, 64

	entryDestination, entryMask, entryProtocol, entryTarget, entryNext = 4, 12, 80, 88, 90
	extensionName, extensionData                                       = 2, 32
)

// The hooks of the table, by number.
const (
	preRouting  = 0
	localIn     = 1
	localOut    = 3
	postRouting = 4
)

// The verdict of a standard target is the negated code minus 1.
const verdictDrop, verdictAccept = -1, -2

// natRules are the rules that redirect outgoing connections to the guest, as the argument of
// the socket option IPT_SO_SET_REPLACE. They do what package network does with nftables,
// except that gVisor does not report a refused packet to the program that sends it: those are
// delivered in the sandbox, where nothing listens.
func natRules() []byte {
	t := &natTable{}
	t.hook(preRouting, nil)
	t.hook(localIn, nil)
	own := netip.MustParseAddr(birth.OwnAddress).AsSlice()
	t.hook(localOut, func() {
		t.rule(natMatch{destination: []byte{127}}, verdict(verdictAccept))
		t.rule(natMatch{destination: own}, verdict(verdictAccept))
		t.rule(natMatch{protocol: unix.IPPROTO_TCP}, redirect(birth.CapturePort))
		t.rule(natMatch{protocol: unix.IPPROTO_UDP, port: 53}, redirect(birth.ResolverPort))
		t.rule(natMatch{protocol: unix.IPPROTO_ICMP}, verdict(verdictDrop))
	})
	t.hook(postRouting, nil)
	t.rule(natMatch{}, extension("ERROR", errorSize, []byte("ERROR")))
	return t.bytes()
}

// natTable is a table that is being made.
type natTable struct {
	rules            []byte
	count            uint32
	hooks            uint32
	entry, underflow [5]uint32
}

// hook begins the rules of a hook. What none matches is accepted.
func (t *natTable) hook(n int, rules func()) {
	t.hooks |= 1 << n
	t.entry[n] = uint32(len(t.rules))
	if rules != nil {
		rules()
	}
	t.underflow[n] = uint32(len(t.rules))
	t.rule(natMatch{}, verdict(verdictAccept))
}

// natMatch selects packets. Zero values match all.
type natMatch struct {
	destination []byte // the first bytes of the address
	protocol    uint16
	port        uint16 // of the destination, for UDP
}

func (t *natTable) rule(m natMatch, target []byte) {
	e := make([]byte, entrySize)
	copy(e[entryDestination:], m.destination)
	for i := range m.destination {
		e[entryMask+i] = 0xff
	}
	binary.NativeEndian.PutUint16(e[entryProtocol:], m.protocol)
	if m.port != 0 {
		ports := make([]byte, matchSize-extensionData) // struct xt_udp
		binary.NativeEndian.PutUint16(ports[2:], 0xffff)
		binary.NativeEndian.PutUint16(ports[4:], m.port)
		binary.NativeEndian.PutUint16(ports[6:], m.port)
		e = append(e, extension("udp", matchSize, ports)...)
	}
	binary.NativeEndian.PutUint16(e[entryTarget:], uint16(len(e)))
	e = append(e, target...)
	binary.NativeEndian.PutUint16(e[entryNext:], uint16(len(e)))
	t.rules = append(t.rules, e...)
	t.count++
}

func (t *natTable) bytes() []byte {
	b := make([]byte, replaceSize, replaceSize+len(t.rules))
	copy(b, "nat")
	binary.NativeEndian.PutUint32(b[replaceHooks:], t.hooks)
	binary.NativeEndian.PutUint32(b[replaceEntries:], t.count)
	binary.NativeEndian.PutUint32(b[replaceSizeAt:], uint32(len(t.rules)))
	for i := range t.entry {
		binary.NativeEndian.PutUint32(b[replaceEntry+4*i:], t.entry[i])
		binary.NativeEndian.PutUint32(b[replaceUnderflow+4*i:], t.underflow[i])
	}
	return append(b, t.rules...)
}

// extension is a match or a target: a struct xt_entry_match or xt_entry_target with its data.
func extension(name string, size int, data []byte) []byte {
	b := make([]byte, size)
	binary.NativeEndian.PutUint16(b, uint16(size))
	copy(b[extensionName:], name)
	copy(b[extensionData:], data)
	return b
}

func verdict(code int32) []byte {
	return extension("", verdictSize, binary.NativeEndian.AppendUint32(nil, uint32(code)))
}

// redirect leads connections to a port of 127.0.0.1.
func redirect(port uint16) []byte {
	data := make([]byte, redirectSize-extensionData) // struct nf_nat_ipv4_multi_range_compat
	const ranges, portsSpecified = 1, 1 << 1
	binary.NativeEndian.PutUint32(data, ranges)
	binary.NativeEndian.PutUint32(data[4:], portsSpecified)
	binary.BigEndian.PutUint16(data[16:], port)
	binary.BigEndian.PutUint16(data[18:], port)
	return extension("REDIRECT", redirectSize, data)
}
