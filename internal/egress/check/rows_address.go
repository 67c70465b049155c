package check

import (
	"context"
	"fmt"

	"hortus.dev/internal/guest/birth"
)

func addressAttacks() []Attack {
	own := func(ctx context.Context, s *stage, token string) error {
		return s.wantEcho(ctx, s.sandbox, "tcp", hostPort(s.srv.names.own.String(), s.srv.own), token)
	}
	web := func(ctx context.Context, s *stage, token string) error {
		return s.wantHTTP(ctx, s.srv.names.open, s.srv.web, token)
	}
	return []Attack{
		{
			ID: "address/literal", Title: "addresses instead of names", Again: true,
			Tries: "connects to an address of the host without a rule", Holds: "the connection ends, and the server gets nothing",
			needs: needsOwn, control: own,
			attack: func(ctx context.Context, s *stage, token string) string {
				return s.tcp(ctx, "tcp", hostPort(s.srv.names.own.String(), s.srv.ownClosed), token)
			},
		},
		{
			ID: "address/of-a-name", Title: "the address behind an allowed name",
			Tries: "connects to an address for which only a name has a rule", Holds: "the connection ends, and the server gets nothing",
			control: web,
			attack: func(ctx context.Context, s *stage, token string) string {
				a := s.proxied(ctx, hostPort(s.srv.names.listen.String(), s.srv.web), "/"+token)
				return a.leak()
			},
		},
		{
			ID: "address/spellings", Title: "addresses in disguise",
			Tries: "asks for 127.0.0.1 as a decimal, octal, hexadecimal or short number, inside IPv6, and as localhost", Holds: "each request is refused",
			control: web,
			attack: func(ctx context.Context, s *stage, token string) string {
				for _, host := range []string{"127.0.0.1", "2130706433", "0x7f000001", "0x7f.1", "017700000001", "127.1", "127.0.0.1.", "[::ffff:127.0.0.1]", "[::1]", "[::]", "0.0.0.0", "0", "[64:ff9b::7f00:1]", "localhost.", "LOCALHOST"} {
					if got := s.proxied(ctx, fmt.Sprintf("%s:%d", host, s.srv.public), "/"+token).leak(); got != "" {
						return host + ": " + got
					}
				}
				return ""
			},
		},
		{
			ID: "address/private", Title: "a name that resolves to a private address", Again: true,
			Tries: "connects to a name that a rule allows without \"private\"", Holds: "refused after the name was resolved",
			control: web,
			attack: func(ctx context.Context, s *stage, token string) string {
				return s.http(ctx, s.srv.names.open, s.srv.public, hostPort(s.srv.names.open, s.srv.public), "/"+token).leak()
			},
		},
		{
			ID: "address/private-range", Title: "a private address in an allowed range",
			Tries: "connects to 127.0.0.1 of the host, whose range a rule allows without \"private\"", Holds: "refused",
			control: web,
			attack: func(ctx context.Context, s *stage, token string) string {
				return s.proxied(ctx, hostPort("127.0.0.1", s.srv.public), "/"+token).leak()
			},
		},
		{
			ID: "address/metadata", Title: "the metadata service", Again: true,
			Tries: "connects to 169.254.169.254, whose range a rule allows", Holds: "refused, with a record",
			control: web,
			attack: func(ctx context.Context, s *stage, token string) string {
				const metadata = "169.254.169.254"
				if got := s.http(ctx, metadata, 80, metadata, "/"+token); got.err == nil && got.leak() != "" {
					return got.leak()
				}
				if got := s.tcp(ctx, "tcp", metadata+":80", get(metadata, "/"+token)); got != "" {
					return got
				}
				if got := s.proxied(ctx, metadata+":80", "/"+token).leak(); got != "" {
					return got
				}
				return s.wantDenied(ctx, metadata)
			},
		},
		{
			ID: "address/redirect", Title: "a redirect to a private address", Again: true,
			Tries: "follows the redirect of an allowed server to addresses and names of the host", Holds: "the connection to the new destination is refused",
			attack: func(ctx context.Context, s *stage, token string) string {
				to := []string{fmt.Sprintf("http://127.0.0.1:%d/", s.srv.closed), fmt.Sprintf("http://localhost:%d/", s.srv.closed), "http://169.254.169.254/", fmt.Sprintf("http://%s/", hostPort(s.srv.names.open, s.srv.closed))}
				if s.srv.names.own.IsValid() {
					to = append(to, fmt.Sprintf("http://%s/", hostPort(s.srv.names.own.String(), s.srv.ownClosed)))
				}
				for _, to := range to {
					a, err := s.follow(ctx, to+token)
					if err == nil && a.leak() != "" {
						return to + ": " + a.leak()
					}
				}
				return ""
			},
			control: func(ctx context.Context, s *stage, token string) error {
				a, err := s.follow(ctx, fmt.Sprintf("http://%s/%s", hostPort(s.srv.names.open, s.srv.web), token))
				if err != nil {
					return err
				}
				if a.status != 200 {
					return fmt.Errorf("a redirect to an allowed server got %s", a)
				}
				return s.reached(ctx, token)
			},
		},
		{
			ID: "address/ipv6", Title: "IPv6",
			Tries: "connects to an IPv6 address of the host, to one of the Internet, and to IPv4 inside IPv6", Holds: "each connection fails",
			attack: func(ctx context.Context, s *stage, token string) string {
				to := []string{"2001:db8::1"}
				if a := s.srv.names.own6; a.IsValid() {
					to = append(to, a.String())
				}
				if a := s.srv.names.own; a.IsValid() {
					to = append(to, "::ffff:"+a.String())
				}
				for _, a := range to {
					if got := s.tcp(ctx, "tcp", hostPort(a, s.srv.ownClosed), token); got != "" {
						return got
					}
				}
				return ""
			},
			control: func(ctx context.Context, s *stage, token string) error {
				at, err := s.listen(ctx, s.sandbox, "tcp6", "[::1]:0")
				if err != nil {
					// A sandbox without any IPv6 is fine; the probe must still work.
					return s.wantHTTP(ctx, s.srv.names.open, s.srv.web, token)
				}
				return s.wantEcho(ctx, s.sandbox, "tcp6", at, token)
			},
		},
	}
}

// proxied makes a request for http://AUTHORITY/path at the guest's proxy port, as an absolute
// URL and through CONNECT. It returns the answer that is a leak, or the last one.
func (s *stage) proxied(ctx context.Context, authority, path string) answer {
	c, err := s.dial(ctx, "tcp", hostPort("127.0.0.1", birth.ProxyPort))
	if err != nil {
		return answer{err: err}
	}
	defer c.Close()
	if a := s.send(c, "GET http://"+authority+path+" HTTP/1.1\r\nHost: "+authority+"\r\n\r\n", "GET"); a.leak() != "" {
		return a
	}
	t, status, err := s.tunnel(ctx, authority)
	if err != nil {
		return answer{err: fmt.Errorf("status %d: %w", status, err)}
	}
	defer t.Close()
	return s.send(t, get(authority, path), "GET")
}
