package capture

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/outbound"
)

// answerTimeout is the maximum wait for the host's answer: a person may be asked, and then the
// host connects.
const answerTimeout = api.EgressAskTimeout + time.Minute

// serve serves a connection that was redirected.
func (c *Capture) serve(ctx context.Context, tc *net.TCPConn) {
	to, err := originalDestination(tc)
	if err != nil || to.Addr().IsLoopback() || to.Addr() == c.own {
		// It was not redirected: a program has connected to the port itself.
		reset(tc)
		return
	}
	if to == c.nameserver {
		c.resolver.ServeConn(ctx, tc)
		return
	}
	q := envd.EgressRequest{Op: envd.EgressConnect, Name: to.Addr().String(), Port: int(to.Port())}
	if c.names.Fake(to.Addr()) {
		var ok bool
		if q.Name, ok = c.names.Name(to.Addr()); !ok {
			reset(tc)
			return
		}
	}
	c.carry(ctx, tc, q)
}

// serveProxy serves a connection to the proxy port.
func (c *Capture) serveProxy(ctx context.Context, tc *net.TCPConn) {
	c.carry(ctx, tc, envd.EgressRequest{Op: envd.EgressProxy})
}

// carry asks the host and carries the connection. It closes it.
func (c *Capture) carry(ctx context.Context, tc *net.TCPConn, q envd.EgressRequest) {
	wait, cancel := context.WithTimeout(ctx, openTimeout)
	s, err := c.open(wait)
	cancel()
	if err != nil {
		reset(tc)
		return
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { tc.Close(); s.Close() })
	defer stop()
	if err := ask(s, q); err != nil {
		reset(tc)
		return
	}
	c.join(tc, s)
}

// ask sends a request. It returns an error unless the host carries it out.
func ask(s *outbound.Stream, q envd.EgressRequest) error {
	line, err := json.Marshal(q)
	if err != nil {
		return err
	}
	s.SetDeadline(time.Now().Add(answerTimeout))
	if _, err := s.Write(append(line, '\n')); err != nil {
		return err
	}
	if q.Op != envd.EgressProxy { // which has no answer
		if line, err = readLine(s); err != nil {
			return err
		}
		var a envd.EgressAnswer
		if err := json.Unmarshal(line, &a); err != nil {
			return err
		}
		if !a.OK {
			return errors.New(a.Error)
		}
	}
	return s.SetDeadline(time.Time{})
}

// readLine reads a line and not what follows it. The stream has a buffer.
func readLine(r io.Reader) ([]byte, error) {
	line := make([]byte, 0, 64)
	for len(line) < envd.MaxEgressLine {
		n, err := r.Read(line[len(line) : len(line)+1 : cap(line)])
		if err != nil {
			return nil, err
		}
		if line = line[:len(line)+n]; n > 0 && line[len(line)-1] == '\n' {
			return line, nil
		}
		if len(line) == cap(line) {
			line = append(line, 0)[:len(line)]
		}
	}
	return nil, errors.New("the host's answer is too long")
}

// soOriginalDst is SO_ORIGINAL_DST of linux/netfilter_ipv4.h.
const soOriginalDst = 80

// originalDestination returns where a program has connected to. It is an error if the
// connection was not redirected.
func originalDestination(tc *net.TCPConn) (to netip.AddrPort, err error) {
	raw, err := tc.SyscallConn()
	if err != nil {
		return to, err
	}
	// It is a struct sockaddr_in, of 16 bytes, as the first field of this one is.
	var m *unix.IPv6Mreq
	cerr := raw.Control(func(fd uintptr) { m, err = unix.GetsockoptIPv6Mreq(int(fd), unix.SOL_IP, soOriginalDst) })
	if err = errors.Join(cerr, err); err != nil {
		return to, err
	}
	b := m.Multiaddr
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), uint16(b[2])<<8|uint16(b[3])), nil
}
