package check

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"hortus.dev/internal/guest/birth"
)

func dnsAttacks() []Attack {
	allowed := func(ctx context.Context, s *stage, _ string) error { return s.wantAddress(ctx, s.srv.names.open) }
	return []Attack{
		{
			ID: "dns/labels", Title: "data in DNS labels", Again: true,
			Tries: "queries TOKEN.denied.example.com, of nine types", Holds: "the name does not exist, and no server sees the query",
			needs: needsName, control: allowed,
			attack: func(ctx context.Context, s *stage, token string) string {
				for _, kind := range []uint16{typeA, 28, 5, 15, 16, 33, 64, 65, 255} {
					name := token + "." + deniedName
					a, err := s.query(ctx, name, kind)
					if bad := wantNoName(name, a, err); bad != "" {
						return fmt.Sprintf("type %d: %s", kind, bad)
					}
				}
				return ""
			},
		},
		{
			ID: "dns/wildcard", Title: "data in labels below an allowed wildcard", Again: true,
			Tries: "queries TOKEN.labels.example.com, which *.labels.example.com allows, and never connects", Holds: "no resolver sees the query",
			needs: needsResolver,
			attack: func(ctx context.Context, s *stage, token string) string {
				for _, kind := range []uint16{typeA, 28, 16} {
					if _, err := s.query(ctx, token+"."+labelParent, kind); err != nil {
						return err.Error()
					}
				}
				return ""
			},
			control: func(ctx context.Context, s *stage, token string) error {
				// A connection does have the host look the name up.
				s.http(ctx, token+"."+labelParent, 80, token+"."+labelParent, "/")
				return s.reached(ctx, token)
			},
		},
		{
			ID: "dns/txt", Title: "answers that carry data",
			Tries: "queries TXT, NULL, CNAME, MX, SRV, HTTPS and ANY of an allowed name", Holds: "no answer has a record",
			needs: needsName, control: allowed,
			attack: func(ctx context.Context, s *stage, _ string) string {
				for _, kind := range []uint16{16, 10, 5, 15, 33, 65, 255} {
					if a, err := s.query(ctx, s.srv.names.open, kind); err == nil && a.records != 0 {
						return fmt.Sprintf("type %d has %d records", kind, a.records)
					}
				}
				return ""
			},
		},
		{
			ID: "dns/tcp", Title: "DNS over TCP",
			Tries: "queries TOKEN.denied.example.com over TCP", Holds: "the name does not exist, and no server sees the query",
			needs: needsName,
			attack: func(ctx context.Context, s *stage, token string) string {
				name := token + "." + deniedName
				a, err := s.queryTCP(ctx, birth.Nameserver+":53", name, 16)
				return wantNoName(name, a, err)
			},
			control: func(ctx context.Context, s *stage, _ string) error {
				a, err := s.queryTCP(ctx, birth.Nameserver+":53", s.srv.names.open, typeA)
				if err == nil && !a.addr.IsValid() {
					err = errors.New("an allowed name has no address over TCP")
				}
				return err
			},
		},
		{
			ID: "dns/other-server", Title: "another DNS server",
			Tries: "queries a DNS server of the Internet over UDP and TCP", Holds: "the sandbox's own resolver answers, and forwards nothing",
			needs: needsName, control: allowed,
			attack: func(ctx context.Context, s *stage, token string) string {
				name := token + "." + deniedName
				a, err := s.queryAt(ctx, publicAddress+":53", name, typeA)
				if bad := wantNoName(name, a, err); bad != "" {
					return bad
				}
				a, err = s.queryTCP(ctx, publicAddress+":53", name, typeA)
				return wantNoName(name, a, err)
			},
		},
		{
			ID: "dns/other-port", Title: "DNS at another port",
			Tries: "sends a query to a DNS server of the host at a port that is not 53", Holds: "the server gets nothing",
			needs: needsOwn,
			attack: func(ctx context.Context, s *stage, token string) string {
				to := hostPort(s.srv.names.own.String(), s.srv.udp)
				b, err := s.datagram(ctx, "udp", to, dnsQuery(token+"."+deniedName, typeA), blocked)
				if err == nil {
					return fmt.Sprintf("%s answers %d bytes", to, len(b))
				}
				return ""
			},
			control: func(ctx context.Context, s *stage, token string) error {
				return s.hostDatagram(ctx, hostPort(s.srv.names.own.String(), s.srv.udp), token)
			},
		},
		{
			ID: "dns/dot", Title: "DNS over TLS",
			Tries: "begins TLS with an allowed name at a port that is not allowed", Holds: "the connection ends, and the server gets nothing",
			attack: func(ctx context.Context, s *stage, token string) string {
				c, err := s.connect(ctx, s.srv.names.open, s.srv.rawClosed)
				if err != nil {
					return ""
				}
				defer c.Close()
				if got := s.say(c, token); got != "" {
					return "port " + strconv.Itoa(s.srv.rawClosed) + " answers"
				}
				return ""
			},
			control: func(ctx context.Context, s *stage, token string) error {
				c, err := s.connect(ctx, s.srv.names.open, s.srv.raw)
				if err != nil {
					return err
				}
				defer c.Close()
				return s.echo(c, token)
			},
		},
		{
			ID: "dns/doh", Title: "DNS over HTTPS",
			Tries: "asks an allowed server for /dns-query of another name", Holds: "the request is refused",
			attack: func(ctx context.Context, s *stage, token string) string {
				return s.https(ctx, s.srv.tls, s.srv.names.open, frontName, "/dns-query?dns="+token).leak()
			},
			control: func(ctx context.Context, s *stage, token string) error { return s.wantHTTPS(ctx, token) },
		},
	}
}
