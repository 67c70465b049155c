package check

import (
	"context"
	"fmt"

	"hortus.dev/internal/guest/birth"
)

func proxyAttacks() []Attack {
	control := func(ctx context.Context, s *stage, token string) error {
		authority := hostPort(s.srv.names.open, s.srv.web)
		c, _, err := s.tunnel(ctx, authority)
		if err != nil {
			return err
		}
		defer c.Close()
		if a := s.send(c, get(authority, "/"+token), "GET"); a.status != 200 {
			return fmt.Errorf("a request through the proxy got %s", a)
		}
		return s.reached(ctx, token)
	}
	return []Attack{
		{
			ID: "proxy/connect-inside", Title: "CONNECT inside a connection", Again: true,
			Tries: "sends CONNECT to an allowed server, directly and inside a tunnel of the proxy", Holds: "refused", control: control,
			attack: func(ctx context.Context, s *stage, token string) string {
				open := hostPort(s.srv.names.open, s.srv.web)
				for _, to := range []string{hostPort(frontName, s.srv.closed), hostPort("127.0.0.1", s.srv.closed), open} {
					raw := "CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\nX-Token: " + token + "\r\n\r\n"
					c, err := s.connect(ctx, s.srv.names.open, s.srv.web)
					if err != nil {
						return err.Error()
					}
					got := s.send(c, raw, "CONNECT").leak()
					c.Close()
					if got != "" {
						return to + ": " + got
					}
					if c, _, err = s.tunnel(ctx, open); err != nil {
						return err.Error()
					}
					got = s.send(c, raw, "CONNECT").leak()
					c.Close()
					if got != "" {
						return to + " inside a tunnel: " + got
					}
				}
				return ""
			},
		},
		{
			ID: "proxy/other-host", Title: "a tunnel with another identity",
			Tries: "opens a tunnel to an allowed name and sends another Host header, or asks for a name that is not allowed", Holds: "refused", control: control,
			attack: func(ctx context.Context, s *stage, token string) string {
				c, _, err := s.tunnel(ctx, hostPort(s.srv.names.open, s.srv.web))
				if err != nil {
					return err.Error()
				}
				defer c.Close()
				if got := s.send(c, get(frontName, "/"+token), "GET").leak(); got != "" {
					return got
				}
				return s.proxied(ctx, hostPort(frontName, s.srv.web), "/"+token).leak()
			},
		},
		{
			ID: "proxy/split", Title: "a destination that is split",
			Tries: "asks the proxy for destinations with line breaks, user names, zones and null bytes", Holds: "each is refused", control: control,
			attack: func(ctx context.Context, s *stage, token string) string {
				open := hostPort(s.srv.names.open, s.srv.web)
				for _, to := range []string{open + "@" + hostPort(frontName, s.srv.closed), hostPort(frontName, s.srv.closed) + "#" + open, "[fe80::1%25lo]:80", open + "\x00.example.com:80", open + " " + frontName, "*:" + fmt.Sprint(s.srv.web), ":" + fmt.Sprint(s.srv.web)} {
					c, err := s.dial(ctx, "tcp", hostPort("127.0.0.1", birth.ProxyPort))
					if err != nil {
						return err.Error()
					}
					got := s.send(c, "CONNECT "+to+" HTTP/1.1\r\nHost: "+to+"\r\nX-Token: "+token+"\r\n\r\n", "CONNECT").leak()
					c.Close()
					if got != "" {
						return fmt.Sprintf("%q: %s", to, got)
					}
				}
				return ""
			},
		},
	}
}
