package check

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
)

func tlsAttacks() []Attack {
	control := func(ctx context.Context, s *stage, token string) error { return s.wantHTTPS(ctx, token) }
	return []Attack{
		{
			ID: "tls/fronting", Title: "domain fronting over TLS", Again: true,
			Tries: "makes a handshake with the allowed server name and sends another Host header", Holds: "the request is refused", control: control,
			attack: func(ctx context.Context, s *stage, token string) string {
				return s.https(ctx, s.srv.tls, s.srv.names.open, frontName, "/"+token).leak()
			},
		},
		{
			ID: "tls/fronting-reuse", Title: "domain fronting on a TLS connection that is reused",
			Tries: "sends a second request with another Host header after an allowed one", Holds: "the second request is refused", control: control,
			attack: func(ctx context.Context, s *stage, token string) string {
				c, err := s.tlsConn(ctx, s.srv.tls, &tls.Config{ServerName: s.srv.names.open, NextProtos: []string{"http/1.1"}})
				if err != nil {
					return err.Error()
				}
				defer c.Close()
				return s.reuse(c, get(hostPort(s.srv.names.open, s.srv.tls), "/"), get(frontName, "/"+token)).leak()
			},
		},
		{
			ID: "tls/fronting-h2", Title: "domain fronting over HTTP/2", Again: true,
			Tries: "sends a second stream with another :authority on the connection of an allowed one", Holds: "the second request is refused",
			attack: func(ctx context.Context, s *stage, token string) string {
				as, err := s.http2(ctx, s.srv.names.open, []string{hostPort(s.srv.names.open, s.srv.tls), frontName, otherName}, "/")
				if err != nil {
					return err.Error()
				}
				for _, a := range as[1:] {
					if got := a.leak(); got != "" {
						return got
					}
				}
				as, err = s.http2(ctx, s.srv.names.open, []string{frontName}, "/"+token)
				if err != nil {
					return err.Error()
				}
				return as[0].leak()
			},
			control: func(ctx context.Context, s *stage, token string) error {
				as, err := s.http2(ctx, s.srv.names.open, []string{hostPort(s.srv.names.open, s.srv.tls)}, "/ok/"+token)
				if err != nil {
					return err
				}
				return s.arrived(ctx, as[0], token)
			},
		},
		{
			ID: "tls/server-name", Title: "another server name",
			Tries: "connects to an allowed name and makes a handshake with another server name", Holds: "the handshake fails", control: control,
			attack: func(ctx context.Context, s *stage, token string) string {
				for _, host := range []string{frontName, s.srv.names.open} {
					if got := s.https(ctx, s.srv.tls, frontName, host, "/"+token).leak(); got != "" {
						return got
					}
				}
				return ""
			},
		},
		{
			ID: "tls/no-server-name", Title: "no server name",
			Tries: "makes a handshake without a server name, terminated and passed through", Holds: "the handshake fails", control: control,
			attack: func(ctx context.Context, s *stage, token string) string {
				for _, port := range []int{s.srv.tls, s.srv.pass} {
					if got := s.https(ctx, port, "", s.srv.names.open, "/"+token).leak(); got != "" {
						return got
					}
				}
				return ""
			},
		},
		{
			ID: "tls/ech", Title: "Encrypted Client Hello",
			Tries: "hides another server name in an encrypted ClientHello behind the allowed one, terminated and passed through", Holds: "the hidden name has no effect: the handshake fails",
			attack: func(ctx context.Context, s *stage, token string) string {
				list, err := echConfigList(s.srv.names.open)
				if err != nil {
					return err.Error()
				}
				for _, port := range []int{s.srv.tls, s.srv.pass} {
					c, err := s.tlsConn(ctx, port, &tls.Config{ServerName: frontName, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS13, EncryptedClientHelloConfigList: list})
					var rejected *tls.ECHRejectionError
					if errors.As(err, &rejected) && port == s.srv.pass {
						return "passed through: the server itself answered the handshake"
					}
					if err == nil {
						got := s.send(c, get(frontName, "/"+token), "GET").leak()
						c.Close()
						if got != "" {
							return got
						}
					}
				}
				return ""
			},
			control: passControl,
		},
		{
			ID: "tls/passthrough", Title: "the server name of a passthrough rule",
			Tries: "makes a handshake with another server name, and sends no TLS, where TLS passes through", Holds: "the server gets nothing", control: passControl,
			attack: func(ctx context.Context, s *stage, token string) string {
				if got := s.https(ctx, s.srv.pass, frontName, frontName, "/"+token).leak(); got != "" {
					return got
				}
				return s.raw(ctx, s.srv.pass, get(s.srv.names.open, "/"+token)).leak()
			},
		},
	}
}

// passControl makes a request through TLS that is not terminated.
func passControl(ctx context.Context, s *stage, token string) error {
	c, err := s.tlsConn(ctx, s.srv.pass, &tls.Config{ServerName: s.srv.names.open, NextProtos: []string{"http/1.1"}})
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.ConnectionState().PeerCertificates[0].Verify(verifyWith(s.srv, s.srv.names.open)); err != nil {
		return fmt.Errorf("the certificate is not the server's own: %w", err)
	}
	if a := s.send(c, get(s.srv.names.open, "/"+token), "GET"); a.status != 200 {
		return fmt.Errorf("a request that is allowed got %s", a)
	}
	return s.reached(ctx, token)
}
