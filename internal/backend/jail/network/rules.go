package network

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
)

// maxRate is the maximum number of new outgoing connections and of DNS queries, a second each,
// and maxBurst how many may exceed it for a moment. The kernel remembers each of them for up to
// two minutes, in memory that it charges to no control group. A connection above the maximum
// is not refused: its first packet is sent again after a second.
const maxRate, maxBurst = 500, 4000

// The table and its chains. The first chain decides what may pass before the kernel begins to
// track it, the second redirects.
const (
	table    = "hortus"
	filter   = "filter"
	redirect = "redirect"
)

// Constants of linux/netfilter/nf_tables.h that x/sys lacks.
const (
	unitSecond   = 1
	limitInverse = 1 // NFT_LIMIT_F_INV: match what exceeds the limit

	localOut = 3 // NF_INET_LOCAL_OUT

	verdictDrop, verdictAccept = 0, 1 // NF_DROP, NF_ACCEPT

	// Priorities of the chains: before connection tracking, and that of destination NAT.
	beforeTracking = -300
	destinationNAT = -100

	register = unix.NFT_REG_1
)

// Offsets in an IPv4 header, and in the headers of TCP and UDP.
const (
	protocolAt, sourceAt, destinationAt = 9, 12, 16
	sourcePortAt, destinationPortAt     = 0, 2
	tcpFlagsAt                          = 13

	synFlag, ackFlag = 1 << 1, 1 << 4
)

// ruleBatch makes the table of a sandbox.
func ruleBatch() *batch {
	own := netip.MustParseAddr(birth.OwnAddress).AsSlice()
	local := []byte{127}
	b := &batch{b: make([]byte, 0, 4<<10)}
	b.message(unix.NFNL_MSG_BATCH_BEGIN, 0, nfgen(unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES), nil)
	b.command(unix.NFT_MSG_NEWTABLE, func() { b.text(unix.NFTA_TABLE_NAME, table) })

	b.chain(filter, "filter", beforeTracking)
	// Answers of the guest's ports to the one program that binds a connection to 127.0.0.1
	// and connects outside have to be tracked, in order to be translated.
	b.rule(filter, b.network(destinationAt, local), b.protocol(unix.IPPROTO_TCP), b.port(sourcePortAt, birth.CapturePort), b.accept)
	b.rule(filter, b.network(destinationAt, local), b.protocol(unix.IPPROTO_UDP), b.port(sourcePortAt, birth.ResolverPort), b.accept)
	// The sandbox's own traffic. It is not tracked, which costs memory of the kernel.
	b.rule(filter, b.network(destinationAt, local), b.untracked, b.accept)
	b.rule(filter, b.network(destinationAt, own), b.network(sourceAt, own), b.untracked, b.accept)
	b.rule(filter, b.network(destinationAt, own), b.accept)
	// What is captured.
	b.rule(filter, b.protocol(unix.IPPROTO_TCP), b.firstPacket, b.excess, b.drop)
	b.rule(filter, b.protocol(unix.IPPROTO_TCP), b.accept)
	b.rule(filter, b.protocol(unix.IPPROTO_UDP), b.port(destinationPortAt, 53), b.excess, b.drop)
	b.rule(filter, b.protocol(unix.IPPROTO_UDP), b.port(destinationPortAt, 53), b.accept)
	// The system call that sends anything else fails with EPERM.
	b.rule(filter, b.drop)

	b.chain(redirect, "nat", destinationNAT)
	b.rule(redirect, b.network(destinationAt, local), b.accept)
	b.rule(redirect, b.network(destinationAt, own), b.accept)
	b.rule(redirect, b.protocol(unix.IPPROTO_TCP), b.redirect(birth.CapturePort))
	b.rule(redirect, b.protocol(unix.IPPROTO_UDP), b.port(destinationPortAt, 53), b.redirect(birth.ResolverPort))
	b.acknowledge()
	b.message(unix.NFNL_MSG_BATCH_END, 0, nfgen(unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES), nil)
	return b
}

// nfgen is the header of netfilter messages.
func nfgen(family byte, resource uint16) []byte {
	return binary.BigEndian.AppendUint16([]byte{family, unix.NFNETLINK_V0}, resource)
}

// command appends a message about tables. The expressions of a rule are functions that append themselves.
func (b *batch) command(kind uint16, body func()) {
	b.message(unix.NFNL_SUBSYS_NFTABLES<<8|kind, unix.NLM_F_CREATE|unix.NLM_F_APPEND, nfgen(unix.AF_INET, 0), body)
}

// chain adds a chain for packets that a process of the sandbox sends.
func (b *batch) chain(name, kind string, priority int32) {
	b.command(unix.NFT_MSG_NEWCHAIN, func() {
		b.text(unix.NFTA_CHAIN_TABLE, table)
		b.text(unix.NFTA_CHAIN_NAME, name)
		b.nest(unix.NFTA_CHAIN_HOOK, func() {
			b.number(unix.NFTA_HOOK_HOOKNUM, localOut)
			b.number(unix.NFTA_HOOK_PRIORITY, uint32(priority))
		})
		b.text(unix.NFTA_CHAIN_TYPE, kind)
	})
}

func (b *batch) rule(chain string, expressions ...func()) {
	b.command(unix.NFT_MSG_NEWRULE, func() {
		b.text(unix.NFTA_RULE_TABLE, table)
		b.text(unix.NFTA_RULE_CHAIN, chain)
		b.nest(unix.NFTA_RULE_EXPRESSIONS, func() {
			for _, e := range expressions {
				e()
			}
		})
	})
}

func (b *batch) expression(name string, body func()) {
	b.nest(unix.NFTA_LIST_ELEM, func() {
		b.text(unix.NFTA_EXPR_NAME, name)
		b.nest(unix.NFTA_EXPR_DATA, body)
	})
}

// load loads bytes of a packet into the register.
func (b *batch) load(base, offset, size uint32) {
	b.expression("payload", func() {
		b.number(unix.NFTA_PAYLOAD_DREG, register)
		b.number(unix.NFTA_PAYLOAD_BASE, base)
		b.number(unix.NFTA_PAYLOAD_OFFSET, offset)
		b.number(unix.NFTA_PAYLOAD_LEN, size)
	})
}

// equal continues if the register has this value.
func (b *batch) equal(value []byte) {
	b.expression("cmp", func() {
		b.number(unix.NFTA_CMP_SREG, register)
		b.number(unix.NFTA_CMP_OP, unix.NFT_CMP_EQ)
		b.nest(unix.NFTA_CMP_DATA, func() { b.bytes(unix.NFTA_DATA_VALUE, value...) })
	})
}

// network continues if the address at offset begins with these bytes.
func (b *batch) network(offset uint32, prefix []byte) func() {
	return func() {
		b.load(unix.NFT_PAYLOAD_NETWORK_HEADER, offset, uint32(len(prefix)))
		b.equal(prefix)
	}
}

func (b *batch) protocol(number byte) func() {
	return func() {
		b.load(unix.NFT_PAYLOAD_NETWORK_HEADER, protocolAt, 1)
		b.equal([]byte{number})
	}
}

func (b *batch) port(offset uint32, port uint16) func() {
	return func() {
		b.load(unix.NFT_PAYLOAD_TRANSPORT_HEADER, offset, 2)
		b.equal(binary.BigEndian.AppendUint16(nil, port))
	}
}

// firstPacket continues if the packet begins a TCP connection.
func (b *batch) firstPacket() {
	b.load(unix.NFT_PAYLOAD_TRANSPORT_HEADER, tcpFlagsAt, 1)
	b.expression("bitwise", func() {
		b.number(unix.NFTA_BITWISE_SREG, register)
		b.number(unix.NFTA_BITWISE_DREG, register)
		b.number(unix.NFTA_BITWISE_LEN, 1)
		b.nest(unix.NFTA_BITWISE_MASK, func() { b.bytes(unix.NFTA_DATA_VALUE, synFlag|ackFlag) })
		b.nest(unix.NFTA_BITWISE_XOR, func() { b.bytes(unix.NFTA_DATA_VALUE, 0) })
	})
	b.equal([]byte{synFlag})
}

// excess continues if there are more packets than maxRate allows.
func (b *batch) excess() {
	b.expression("limit", func() {
		b.number64(unix.NFTA_LIMIT_RATE, maxRate)
		b.number64(unix.NFTA_LIMIT_UNIT, unitSecond)
		b.number(unix.NFTA_LIMIT_BURST, maxBurst)
		b.number(unix.NFTA_LIMIT_TYPE, unix.NFT_LIMIT_PKTS)
		b.number(unix.NFTA_LIMIT_FLAGS, limitInverse)
	})
}

func (b *batch) untracked() { b.expression("notrack", func() {}) }

func (b *batch) accept() { b.verdict(verdictAccept) }
func (b *batch) drop()   { b.verdict(verdictDrop) }

func (b *batch) verdict(code uint32) {
	b.expression("immediate", func() {
		b.number(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT)
		b.nest(unix.NFTA_IMMEDIATE_DATA, func() {
			b.nest(unix.NFTA_DATA_VERDICT, func() { b.number(unix.NFTA_VERDICT_CODE, code) })
		})
	})
}

// redirect leads the connection to a port of 127.0.0.1.
func (b *batch) redirect(port uint16) func() {
	return func() {
		b.expression("immediate", func() {
			b.number(unix.NFTA_IMMEDIATE_DREG, register)
			b.nest(unix.NFTA_IMMEDIATE_DATA, func() { b.bytes(unix.NFTA_DATA_VALUE, byte(port>>8), byte(port)) })
		})
		b.expression("redir", func() {
			b.number(unix.NFTA_REDIR_REG_PROTO_MIN, register)
		})
	}
}
