package resolver

import (
	"encoding/binary"
	"net/netip"
	"strings"
)

// Sizes of DNS messages, in bytes.
const (
	headerSize = 12
	maxLabel   = 63
	maxName    = 253 // without the final dot
	// maxMessage is the maximum size of a query.
	maxMessage = 4 << 10
	// maxUDP is the size of UDP messages that answers with an OPT record offer.
	maxUDP = 1232
)

// Types, classes and codes of DNS.
const (
	typeA    = 1
	typeAAAA = 28
	typeOPT  = 41

	classIN = 1

	codeOK             = 0
	codeFormat         = 1
	codeServerFailure  = 2
	codeNoName         = 3
	codeNotImplemented = 4
	codeRefused        = 5

	flagResponse  = 1 << 15
	flagRecursion = 1 << 8 // the query's, copied
	flagAvailable = 1 << 7
	opcodeMask    = 0xf << 11
)

// question is a query.
type question struct {
	id    uint16
	flags uint16
	// section is the question as it was sent, since programs compare its letters' case.
	section []byte
	// name is in lower case and without the final dot; "" is the root.
	name        string
	kind, class uint16
	edns        bool // it has an OPT record
}

// parse reads a query. ok is false for a message that is not answered. code is not codeOK for
// one that is answered with an error only.
func parse(msg []byte) (q question, code int, ok bool) {
	if len(msg) < headerSize {
		return q, 0, false
	}
	word := func(at int) uint16 { return binary.BigEndian.Uint16(msg[at:]) }
	q.id, q.flags = word(0), word(2)
	if q.flags&flagResponse != 0 {
		return q, 0, false
	}
	if q.flags&opcodeMask != 0 {
		return q, codeNotImplemented, true
	}
	// One question, and no records but what the third section may have.
	if word(4) != 1 || word(6) != 0 || word(8) != 0 {
		return q, codeFormat, true
	}
	name, n := parseName(msg[headerSize:])
	if n == 0 || len(msg) < headerSize+n+4 {
		return q, codeFormat, true
	}
	end := headerSize + n + 4
	q.name, q.kind, q.class = name, word(end-4), word(end-2)
	q.section = msg[headerSize:end]
	// The OPT record is the first one of those that clients send.
	opt := msg[end:]
	q.edns = word(10) > 0 && len(opt) >= 11 && opt[0] == 0 && binary.BigEndian.Uint16(opt[1:]) == typeOPT
	return q, codeOK, true
}

// parseName reads a name that is not compressed, and returns its size in the message; 0 if it
// is malformed. A label may contain any byte; see valid.
func parseName(b []byte) (string, int) {
	var name strings.Builder
	for at := 0; at < len(b); {
		n := int(b[at])
		at++
		if n == 0 {
			return strings.ToLower(name.String()), at
		}
		if n > maxLabel || at+n > len(b) || name.Len()+1+n > maxName+1 {
			return "", 0
		}
		if name.Len() > 0 {
			name.WriteByte('.')
		}
		label := b[at : at+n]
		for _, c := range label {
			if c == '.' {
				c = 0 // no valid name has it, and two labels stay two
			}
			name.WriteByte(c)
		}
		at += n
	}
	return "", 0
}

// valid reports whether a name may be asked for: letters, digits, hyphens and underscores, and
// not an address.
func valid(name string) bool {
	if name == "" || len(name) > maxName {
		return false
	}
	last := name
	for label := range strings.SplitSeq(name, ".") {
		if label == "" {
			return false
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
		last = label
	}
	return strings.Trim(last, "0123456789") != ""
}

// answer makes the answer to a query, with an address if there is one.
func (q *question) answer(code int, address netip.Addr) []byte {
	count := func(yes bool) uint16 {
		if yes {
			return 1
		}
		return 0
	}
	b := make([]byte, 0, headerSize+len(q.section)+48)
	b = binary.BigEndian.AppendUint16(b, q.id)
	b = binary.BigEndian.AppendUint16(b, flagResponse|q.flags&(opcodeMask|flagRecursion)|flagAvailable|uint16(code))
	for _, n := range []uint16{count(q.section != nil), count(address.IsValid()), 0, count(q.edns)} {
		b = binary.BigEndian.AppendUint16(b, n)
	}
	b = append(b, q.section...)
	if address.IsValid() {
		b = binary.BigEndian.AppendUint16(b, 0xc000|headerSize) // the name of the question
		b = binary.BigEndian.AppendUint16(b, q.kind)
		b = binary.BigEndian.AppendUint16(b, classIN)
		b = binary.BigEndian.AppendUint32(b, ttl)
		data := address.AsSlice()
		b = binary.BigEndian.AppendUint16(b, uint16(len(data)))
		b = append(b, data...)
	}
	if q.edns {
		b = append(b, 0)
		b = binary.BigEndian.AppendUint16(b, typeOPT)
		b = binary.BigEndian.AppendUint16(b, maxUDP)
		b = append(b, 0, 0, 0, 0, 0, 0)
	}
	return b
}
