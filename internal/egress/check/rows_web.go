package check

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

func webAttacks() []Attack {
	control := func(ctx context.Context, s *stage, token string) error {
		return s.wantHTTP(ctx, s.srv.names.open, s.srv.web, token)
	}
	return []Attack{
		{
			ID: "web/fronting", Title: "domain fronting over HTTP", Again: true,
			Tries: "sends other Host headers, and URLs of other hosts, to an allowed name", Holds: "each request is refused", control: control,
			attack: func(ctx context.Context, s *stage, token string) string {
				name := s.srv.names.open
				for _, raw := range []string{
					get(frontName, "/"+token), get(hostPort(name, s.srv.closed), "/"+token), get("", "/"+token), get(name+"@"+frontName, "/"+token),
					get(name, "http://"+frontName+"/"+token),
					get(name, "/"+token, "Host: "+frontName), "GET /" + token + " HTTP/1.0\r\n\r\n",
				} {
					if got := s.raw(ctx, s.srv.web, raw).leak(); got != "" {
						return fmt.Sprintf("%.60q: %s", raw, got)
					}
				}
				// A URL decides, not the Host header beside it, which must not be forwarded.
				s.raw(ctx, s.srv.web, get(token+"."+frontName, "http://"+name+"/"))
				return ""
			},
		},
		{
			ID: "web/fronting-reuse", Title: "domain fronting on a connection that is reused",
			Tries: "sends a second request with another Host header on the connection of an allowed one", Holds: "the second request is refused", control: control,
			attack: func(ctx context.Context, s *stage, token string) string {
				c, err := s.connect(ctx, s.srv.names.open, s.srv.web)
				if err != nil {
					return err.Error()
				}
				defer c.Close()
				return s.reuse(c, get(hostPort(s.srv.names.open, s.srv.web), "/"), get(frontName, "/"+token)).leak()
			},
		},
		{
			ID: "web/path", Title: "HTTP in clear by the same rules", Again: true,
			Tries: "requests paths and methods that the rule of an allowed name does not have, also as /ok/../, %2e%2e and //", Holds: "each request is refused",
			attack: func(ctx context.Context, s *stage, token string) string {
				name := s.srv.names.open
				host := hostPort(name, s.srv.path)
				for _, raw := range []string{
					get(host, "/secret/"+token), get(host, "/ok/../secret/"+token), get(host, "/ok/%2e%2e/secret/"+token), get(host, "/ok/..%2fsecret/"+token),
					get(host, "/ok/..;/secret/"+token), get(host, "/ok/..\\secret/"+token), get(host, "//secret/"+token), get(host, "/OK/"+token),
					"DELETE /ok/" + token + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n",
				} {
					if got := s.raw(ctx, s.srv.path, raw).leak(); got != "" {
						return fmt.Sprintf("%.60q: %s", raw, got)
					}
				}
				return ""
			},
			control: func(ctx context.Context, s *stage, token string) error {
				return s.wantHTTP(ctx, s.srv.names.open, s.srv.path, token)
			},
		},
		{
			ID: "web/port", Title: "another port of an allowed name",
			Tries: "connects to a port that no rule has", Holds: "refused", control: control,
			attack: func(ctx context.Context, s *stage, token string) string {
				return s.http(ctx, s.srv.names.open, s.srv.closed, hostPort(s.srv.names.open, s.srv.closed), "/"+token).leak()
			},
		},
		{
			ID: "web/upgrade", Title: "other protocols inside HTTP",
			Tries: "asks an allowed server for h2c and other upgrades, and speaks HTTP/2 in clear", Holds: "refused", control: control,
			attack: func(ctx context.Context, s *stage, token string) string {
				host := hostPort(s.srv.names.open, s.srv.web)
				for _, up := range []string{"h2c", "TLS/1.0", "connect-udp", "websocket, h2c"} {
					raw := get(host, "/"+token, "Connection: Upgrade, HTTP2-Settings", "Upgrade: "+up, "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA")
					if got := s.raw(ctx, s.srv.web, raw).leak(); got != "" {
						return up + ": " + got
					}
				}
				return s.raw(ctx, s.srv.web, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+token).leak()
			},
		},
		{
			ID: "web/other-protocol", Title: "other protocols at an HTTP port",
			Tries: "speaks SSH to a port that is allowed for HTTP and TLS", Holds: "the connection ends, and the server gets nothing",
			attack: func(ctx context.Context, s *stage, token string) string {
				c, err := s.connect(ctx, s.srv.names.open, s.srv.web)
				if err != nil {
					return err.Error()
				}
				defer c.Close()
				if got := s.say(c, "SSH-2.0-"+token+"\r\n"); strings.Contains(got, token) {
					return fmt.Sprintf("the answer is %.80q", got)
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
			ID: "web/large-headers", Title: "oversized headers",
			Tries: "sends requests with 2 MB of headers and a URL of 2 MB", Holds: "refused before the server is reached, and the sandbox's connections still work", control: control,
			attack: func(ctx context.Context, s *stage, token string) string {
				host, big := hostPort(s.srv.names.open, s.srv.web), strings.Repeat("a", 2<<20)
				for _, raw := range []string{get(host, "/"+token, "X-Large: "+big), get(host, "/"+token+"?"+big), get(host, "/"+token, strings.Repeat("X-Many: a\r\n", 150000)+"X-Last: a")} {
					a := s.raw(ctx, s.srv.web, raw)
					if a.status == http.StatusRequestURITooLong || a.status == http.StatusRequestHeaderFieldsTooLarge {
						continue
					}
					if got := a.leak(); got != "" {
						return got
					}
				}
				return ""
			},
		},
	}
}

// raw sends bytes over a fresh connection to a port of the allowed name, and reads one answer.
func (s *stage) raw(ctx context.Context, port int, bytes string) answer {
	c, err := s.connect(ctx, s.srv.names.open, port)
	if err != nil {
		return answer{err: err}
	}
	defer c.Close()
	return s.send(c, bytes, "GET")
}
