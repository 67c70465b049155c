package check

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"hortus.dev/internal/guest/birth"
)

const (
	typeA    = 1
	codeName = 3 // NXDOMAIN
)

// dnsAnswer is what is looked at in a DNS answer.
type dnsAnswer struct {
	code    int
	records int
	addr    netip.Addr // of a single A record
}

// dnsQuery makes a query for a name.
func dnsQuery(name string, kind uint16) []byte {
	b := []byte{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for label := range strings.SplitSeq(name, ".") {
		b = append(append(b, byte(len(label))), label...)
	}
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(append(b, 0), kind), 1)
}

// parseDNS reads an answer to a query.
func parseDNS(b, query []byte) (dnsAnswer, error) {
	if len(b) < 12 || b[0] != query[0] || b[1] != query[1] || b[2]&0x80 == 0 {
		return dnsAnswer{}, errors.New("not an answer to the query")
	}
	a := dnsAnswer{code: int(b[3] & 15), records: int(binary.BigEndian.Uint16(b[6:]))}
	// The sandbox's resolver has the record right after the question, with a name that points
	// to it.
	if rest := b[min(len(b), len(query)):]; a.records == 1 && len(rest) >= 16 && rest[0]&0xc0 == 0xc0 && binary.BigEndian.Uint16(rest[2:]) == typeA && binary.BigEndian.Uint16(rest[10:]) == 4 {
		a.addr = netip.AddrFrom4([4]byte(rest[12:16]))
	}
	return a, nil
}

// query asks the sandbox's name server over UDP.
func (s *stage) query(ctx context.Context, name string, kind uint16) (dnsAnswer, error) {
	return s.queryAt(ctx, birth.Nameserver+":53", name, kind)
}

func (s *stage) queryAt(ctx context.Context, server, name string, kind uint16) (dnsAnswer, error) {
	q := dnsQuery(name, kind)
	b, err := s.datagram(ctx, "udp", server, q, s.cfg.Timeout)
	if err != nil {
		return dnsAnswer{}, err
	}
	return parseDNS(b, q)
}

// queryTCP asks a server over TCP.
func (s *stage) queryTCP(ctx context.Context, server, name string, kind uint16) (dnsAnswer, error) {
	c, err := s.dial(ctx, "tcp", server)
	if err != nil {
		return dnsAnswer{}, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(s.cfg.Timeout))
	q := dnsQuery(name, kind)
	if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...)); err != nil {
		return dnsAnswer{}, err
	}
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return dnsAnswer{}, err
	}
	b := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(c, b); err != nil {
		return dnsAnswer{}, err
	}
	return parseDNS(b, q)
}

// wantNoName returns what is wrong with the answer about a name that is not allowed.
func wantNoName(name string, a dnsAnswer, err error) string {
	if err == nil && (a.records != 0 || a.code != codeName) {
		return fmt.Sprintf("%s: code %d with %d records", name, a.code, a.records)
	}
	return ""
}

// wantAddress is the control of DNS: an allowed name has an address in the sandbox's own range.
func (s *stage) wantAddress(ctx context.Context, name string) error {
	a, err := s.query(ctx, name, typeA)
	if err != nil {
		return err
	}
	if !netip.MustParsePrefix(birth.FakeNetwork).Contains(a.addr) {
		return fmt.Errorf("%s: code %d, address %v", name, a.code, a.addr)
	}
	return nil
}
