package check

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"hortus.dev/internal/egress/check/probe"
)

func packetAttacks() []Attack {
	return []Attack{
		{
			ID: "packet/udp", Title: "UDP", Again: true,
			Tries: "sends datagrams to the host, to the Internet, to multicast and broadcast addresses", Holds: "no server gets one",
			attack: func(ctx context.Context, s *stage, token string) string {
				to := []string{publicAddress, "169.254.169.254", "224.0.0.251", "255.255.255.255", "198.18.0.3", "2001:db8::1", "ff02::fb"}
				if a := s.srv.names.own; a.IsValid() {
					to = append(to, a.String())
				}
				for _, a := range to {
					if b, err := s.datagram(ctx, "udp", hostPort(a, s.srv.udp), []byte(token), blocked); err == nil {
						return fmt.Sprintf("%s answers %d bytes", a, len(b))
					}
				}
				return ""
			},
			control: udpControl,
		},
		{
			ID: "packet/quic", Title: "QUIC",
			Tries: "sends a QUIC Initial packet to the address of an allowed name and port", Holds: "the server gets nothing",
			needs: needsName,
			attack: func(ctx context.Context, s *stage, token string) string {
				a, err := s.query(ctx, s.srv.names.open, typeA)
				if err != nil {
					return err.Error()
				}
				initial := append([]byte{0xc3, 0, 0, 0, 1, 8}, token...)
				initial = append(initial, make([]byte, 1200-len(initial))...)
				if _, err := s.datagram(ctx, "udp", hostPort(a.addr.String(), s.srv.udp), initial, blocked); err == nil {
					return "there is an answer"
				}
				return ""
			},
			control: udpControl,
		},
		{
			ID: "packet/icmp", Title: "ICMP",
			Tries: "pings an address of the host with data", Holds: "the host gets no echo request",
			needs: func(s *stage) string {
				if !s.srv.names.icmp {
					return "only root sees which ICMP messages reach this machine"
				}
				return needsOwn(s)
			},
			attack: func(ctx context.Context, s *stage, token string) string {
				// An answer proves nothing: the loopback of gVisor answers for every address.
				_, _ = s.ask(ctx, probe.Request{Op: probe.OpPing, Address: s.srv.names.own.String(), Data: []byte(token), WaitMS: int(blocked.Milliseconds())})
				return ""
			},
			control: func(ctx context.Context, s *stage, token string) error {
				c, err := net.Dial("ip4:icmp", s.srv.names.own.String())
				if err != nil {
					return err
				}
				defer c.Close()
				if _, err := c.Write(append([]byte{8, 0, 0, 0, 0, 1, 0, 1}, token...)); err != nil {
					return err
				}
				return s.reached(ctx, token)
			},
		},
	}
}

// udpControl sends a datagram inside the sandbox, and one from the host to the server.
func udpControl(ctx context.Context, s *stage, token string) error {
	at, err := s.listen(ctx, s.sandbox, "udp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if b, err := s.datagram(ctx, "udp", at, []byte(token), s.cfg.Timeout); err != nil || string(b) != token {
		return errors.Join(fmt.Errorf("UDP inside the sandbox got %q", b), err)
	}
	return s.hostDatagram(ctx, hostPort(s.srv.names.listen.String(), s.srv.udp), token)
}

// hostDatagram sends a datagram from the host to a server, which must get it.
func (s *stage) hostDatagram(ctx context.Context, to, token string) error {
	c, err := net.Dial("udp", to)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(s.cfg.Timeout))
	if _, err := c.Write([]byte(token)); err != nil {
		return err
	}
	return s.reached(ctx, token)
}
