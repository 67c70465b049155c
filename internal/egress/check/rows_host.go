package check

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"

	"hortus.dev/internal/guest/birth"
)

func hostAttacks() []Attack {
	web := func(ctx context.Context, s *stage, token string) error {
		return s.wantHTTP(ctx, s.srv.names.open, s.srv.web, token)
	}
	return []Attack{
		{
			ID: "host/loopback", Title: "services of the host on loopback", Again: true,
			Tries: "connects to a port of the host at 127.0.0.1, 127.0.1.1, ::1 and the sandbox's own addresses", Holds: "each connection fails",
			attack: func(ctx context.Context, s *stage, token string) string {
				for _, a := range []string{"127.0.0.1", "127.0.1.1", "::1", "0.0.0.0", birth.OwnAddress, birth.Nameserver, "198.18.0.0"} {
					if got := s.tcp(ctx, "tcp", hostPort(a, s.srv.rawClosed), token); got != "" {
						return got
					}
				}
				return ""
			},
			control: func(ctx context.Context, s *stage, token string) error {
				c, err := net.Dial("tcp", hostPort(s.srv.names.listen.String(), s.srv.rawClosed))
				if err != nil {
					return err
				}
				defer c.Close()
				if err := s.echo(c, token); err != nil {
					return err
				}
				return web(ctx, s, newToken())
			},
		},
		{
			ID: "host/names", Title: "names of the host",
			Tries: "resolves and requests host.docker.internal, host.containers.internal, gateway.docker.internal and the host's name", Holds: "no name exists or is allowed",
			control: web,
			attack: func(ctx context.Context, s *stage, token string) string {
				all := []string{"host.docker.internal", "host.containers.internal", "gateway.docker.internal", "host.internal", "metadata.google.internal", "kubernetes.default.svc"}
				if name, err := os.Hostname(); err == nil && strings.ToLower(name) != s.srv.names.open && plainName(strings.ToLower(name)) {
					all = append(all, strings.ToLower(name))
				}
				for _, name := range all {
					a, err := s.query(ctx, name, typeA)
					if bad := wantNoName(name, a, err); bad != "" {
						return bad
					}
					if got := s.proxied(ctx, hostPort(name, s.srv.closed), "/"+token).leak(); got != "" {
						return got
					}
				}
				return ""
			},
		},
		{
			ID: "host/unix", Title: "unix sockets of the host", Again: true,
			Tries: "connects to a socket of the host by its path and by its abstract name", Holds: "each connection fails",
			attack: func(ctx context.Context, s *stage, token string) string {
				for _, name := range []string{s.srv.unixPath, s.srv.unixAbstract} {
					if got := s.tcp(ctx, "unix", name, token); got != "" {
						return got
					}
				}
				return ""
			},
			control: func(ctx context.Context, s *stage, token string) error {
				for _, name := range []string{s.srv.unixPath, s.srv.unixAbstract} {
					c, err := net.Dial("unix", name)
					if err != nil {
						return err
					}
					err = s.echo(c, token)
					c.Close()
					if err != nil {
						return err
					}
				}
				at, err := s.listen(ctx, s.sandbox, "unix", "@"+token)
				if err != nil {
					return err
				}
				return s.wantEcho(ctx, s.sandbox, "unix", at, token)
			},
		},
		{
			ID: "host/other-sandbox", Title: "other sandboxes", Again: true,
			Tries: "connects to servers of another sandbox: at its addresses, at its abstract socket, by its ID as a name", Holds: "each connection fails",
			attack: func(ctx context.Context, s *stage, token string) string {
				at, err := s.listen(ctx, s.other, "tcp4", "0.0.0.0:0")
				if err != nil {
					return err.Error()
				}
				_, port, err := net.SplitHostPort(at)
				if err != nil {
					return err.Error()
				}
				name := "@" + newToken()
				if _, err := s.listen(ctx, s.other, "unix", name); err != nil {
					return err.Error()
				}
				for _, a := range []string{"127.0.0.1", birth.OwnAddress, birth.Nameserver} {
					if got := s.tcp(ctx, "tcp", net.JoinHostPort(a, port), token); got != "" {
						return got
					}
				}
				if got := s.tcp(ctx, "unix", name, token); got != "" {
					return got
				}
				id := string(s.other.sandbox.ID())
				a, err := s.query(ctx, id, typeA)
				return wantNoName(id, a, err)
			},
			control: func(ctx context.Context, s *stage, token string) error {
				at, err := s.listen(ctx, s.other, "tcp4", "0.0.0.0:0")
				if err != nil {
					return err
				}
				_, port, err := net.SplitHostPort(at)
				if err != nil {
					return err
				}
				return s.wantEcho(ctx, s.other, "tcp", net.JoinHostPort(birth.OwnAddress, port), token)
			},
		},
		{
			ID: "guest/ports", Title: "the ports of the capture", Again: true,
			Tries: "connects directly to the capture's and the resolver's ports, at every local address, and asks for a connection in the guest's own protocol", Holds: "nothing answers, and nothing is connected",
			control: web,
			attack: func(ctx context.Context, s *stage, token string) string {
				ask := fmt.Sprintf("{\"op\":\"connect\",\"name\":\"127.0.0.1\",\"port\":%d}\n%s", s.srv.rawClosed, token)
				for _, a := range []string{"127.0.0.1", "127.1.2.3", birth.OwnAddress, "::ffff:127.0.0.1"} {
					for _, port := range []int{birth.CapturePort, birth.ResolverPort} {
						if got := s.tcp(ctx, "tcp", hostPort(a, port), ask); got != "" {
							return got
						}
					}
					if got := s.tcp(ctx, "tcp", hostPort(a, birth.ProxyPort), ask); got != "" && !strings.HasPrefix(got, hostPort(a, birth.ProxyPort)+` answers "HTTP/1.1 400 `) {
						return got
					}
				}
				return ""
			},
		},
		{
			ID: "guest/unassigned", Title: "addresses that stand for no name",
			Tries: "connects to addresses of the sandbox's range for names that were never resolved", Holds: "each connection fails",
			control: web,
			attack: func(ctx context.Context, s *stage, token string) string {
				for _, a := range []string{"198.18.0.3", "198.18.0.255", "198.18.77.77", "198.19.255.254", "198.19.255.255"} {
					if got := s.tcp(ctx, "tcp", hostPort(a, s.srv.raw), token); got != "" {
						return got
					}
				}
				return ""
			},
		},
	}
}
