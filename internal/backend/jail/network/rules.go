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
	r := &rules{&batch{b: make([]byte, 0, 4<<10)}}
	r.message(unix.NFNL_MSG_BATCH_BEGIN, 0, nfgen(unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES), nil)
	r.command(unix.NFT_MSG_NEWTABLE, func() { r.text(unix.NFTA_TABLE_NAME, table) })

	r.chain(filter, "filter", beforeTracking)
	// Answers of the guest's ports to the one program that binds a connection to 127.0.0.1
	// and connects outside have to be tracked, in order to be translated.
	r.rule(filter, r.network(destinationAt, local), r.protocol(unix.IPPROTO_TCP), r.port(sourcePortAt, birth.CapturePort), r.accept)
	r.rule(filter, r.network(destinationAt, local), r.protocol(unix.IPPROTO_UDP), r.port(sourcePortAt, birth.ResolverPort), r.accept)
	// The sandbox's own traffic. It is not tracked, which costs memory of the kernel.
	r.rule(filter, r.network(destinationAt, local), r.untracked, r.accept)
	r.rule(filter, r.network(destinationAt, own), r.network(sourceAt, own), r.untracked, r.accept)
	r.rule(filter, r.network(destinationAt, own), r.accept)
	// What is captured.
	r.rule(filter, r.protocol(unix.IPPROTO_TCP), r.firstPacket, r.excess, r.drop)
	r.rule(filter, r.protocol(unix.IPPROTO_TCP), r.accept)
	r.rule(filter, r.protocol(unix.IPPROTO_UDP), r.port(destinationPortAt, 53), r.excess, r.drop)
	r.rule(filter, r.protocol(unix.IPPROTO_UDP), r.port(destinationPortAt, 53), r.accept)
	// The system call that sends anything else fails with EPERM.
	r.rule(filter, r.drop)

	r.chain(redirect, "nat", destinationNAT)
	r.rule(redirect, r.network(destinationAt, local), r.accept)
	r.rule(redirect, r.network(destinationAt, own), r.accept)
	r.rule(redirect, r.protocol(unix.IPPROTO_TCP), r.redirect(birth.CapturePort))
	r.rule(redirect, r.protocol(unix.IPPROTO_UDP), r.port(destinationPortAt, 53), r.redirect(birth.ResolverPort))
	r.acknowledge()
	r.message(unix.NFNL_MSG_BATCH_END, 0, nfgen(unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES), nil)
	return r.batch
}

// rules builds the messages. Its expressions are functions that append themselves.
type rules struct{ *batch }

// nfgen is the header of netfilter messages.
func nfgen(family byte, resource uint16) []byte {
	return binary.BigEndian.AppendUint16([]byte{family, unix.NFNETLINK_V0}, resource)
}

func (r *rules) command(kind uint16, body func()) {
	r.message(unix.NFNL_SUBSYS_NFTABLES<<8|kind, unix.NLM_F_CREATE|unix.NLM_F_APPEND, nfgen(unix.AF_INET, 0), body)
}

// chain adds a chain for packets that a process of the sandbox sends.
func (r *rules) chain(name, kind string, priority int32) {
	r.command(unix.NFT_MSG_NEWCHAIN, func() {
		r.text(unix.NFTA_CHAIN_TABLE, table)
		r.text(unix.NFTA_CHAIN_NAME, name)
		r.nest(unix.NFTA_CHAIN_HOOK, func() {
			r.number(unix.NFTA_HOOK_HOOKNUM, localOut)
			r.number(unix.NFTA_HOOK_PRIORITY, uint32(priority))
		})
		r.text(unix.NFTA_CHAIN_TYPE, kind)
	})
}

func (r *rules) rule(chain string, expressions ...func()) {
	r.command(unix.NFT_MSG_NEWRULE, func() {
		r.text(unix.NFTA_RULE_TABLE, table)
		r.text(unix.NFTA_RULE_CHAIN, chain)
		r.nest(unix.NFTA_RULE_EXPRESSIONS, func() {
			for _, e := range expressions {
				e()
			}
		})
	})
}

func (r *rules) expression(name string, body func()) {
	r.nest(unix.NFTA_LIST_ELEM, func() {
		r.text(unix.NFTA_EXPR_NAME, name)
		r.nest(unix.NFTA_EXPR_DATA, body)
	})
}

// load loads bytes of a packet into the register.
func (r *rules) load(base, offset, size uint32) {
	r.expression("payload", func() {
		r.number(unix.NFTA_PAYLOAD_DREG, register)
		r.number(unix.NFTA_PAYLOAD_BASE, base)
		r.number(unix.NFTA_PAYLOAD_OFFSET, offset)
		r.number(unix.NFTA_PAYLOAD_LEN, size)
	})
}

// equal continues if the register has this value.
func (r *rules) equal(value []byte) {
	r.expression("cmp", func() {
		r.number(unix.NFTA_CMP_SREG, register)
		r.number(unix.NFTA_CMP_OP, unix.NFT_CMP_EQ)
		r.nest(unix.NFTA_CMP_DATA, func() { r.bytes(unix.NFTA_DATA_VALUE, value...) })
	})
}

// network continues if the address at offset begins with these bytes.
func (r *rules) network(offset uint32, prefix []byte) func() {
	return func() {
		r.load(unix.NFT_PAYLOAD_NETWORK_HEADER, offset, uint32(len(prefix)))
		r.equal(prefix)
	}
}

func (r *rules) protocol(number byte) func() {
	return func() {
		r.load(unix.NFT_PAYLOAD_NETWORK_HEADER, protocolAt, 1)
		r.equal([]byte{number})
	}
}

func (r *rules) port(offset uint32, port uint16) func() {
	return func() {
		r.load(unix.NFT_PAYLOAD_TRANSPORT_HEADER, offset, 2)
		r.equal(binary.BigEndian.AppendUint16(nil, port))
	}
}

// firstPacket continues if the packet begins a TCP connection.
func (r *rules) firstPacket() {
	r.load(unix.NFT_PAYLOAD_TRANSPORT_HEADER, tcpFlagsAt, 1)
	r.expression("bitwise", func() {
		r.number(unix.NFTA_BITWISE_SREG, register)
		r.number(unix.NFTA_BITWISE_DREG, register)
		r.number(unix.NFTA_BITWISE_LEN, 1)
		r.nest(unix.NFTA_BITWISE_MASK, func() { r.bytes(unix.NFTA_DATA_VALUE, synFlag|ackFlag) })
		r.nest(unix.NFTA_BITWISE_XOR, func() { r.bytes(unix.NFTA_DATA_VALUE, 0) })
	})
	r.equal([]byte{synFlag})
}

// excess continues if there are more packets than maxRate allows.
func (r *rules) excess() {
	r.expression("limit", func() {
		r.number64(unix.NFTA_LIMIT_RATE, maxRate)
		r.number64(unix.NFTA_LIMIT_UNIT, unitSecond)
		r.number(unix.NFTA_LIMIT_BURST, maxBurst)
		r.number(unix.NFTA_LIMIT_TYPE, unix.NFT_LIMIT_PKTS)
		r.number(unix.NFTA_LIMIT_FLAGS, limitInverse)
	})
}

func (r *rules) untracked() { r.expression("notrack", func() {}) }

func (r *rules) accept() { r.verdict(verdictAccept) }
func (r *rules) drop()   { r.verdict(verdictDrop) }

func (r *rules) verdict(code uint32) {
	r.expression("immediate", func() {
		r.number(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT)
		r.nest(unix.NFTA_IMMEDIATE_DATA, func() {
			r.nest(unix.NFTA_DATA_VERDICT, func() { r.number(unix.NFTA_VERDICT_CODE, code) })
		})
	})
}

// redirect leads the connection to a port of 127.0.0.1.
func (r *rules) redirect(port uint16) func() {
	return func() {
		r.expression("immediate", func() {
			r.number(unix.NFTA_IMMEDIATE_DREG, register)
			r.nest(unix.NFTA_IMMEDIATE_DATA, func() { r.bytes(unix.NFTA_DATA_VALUE, byte(port>>8), byte(port)) })
		})
		r.expression("redir", func() {
			r.number(unix.NFTA_REDIR_REG_PROTO_MIN, register)
		})
	}
}
