package check

import (
	"context"
	"fmt"
	"time"

	"hortus.dev/api"
)

// lyingAttacks need a resolver under the control of the attacker.
func lyingAttacks() []Attack {
	private := func(ctx context.Context, s *stage, token string) error {
		return s.wantHTTP(ctx, privateName, s.srv.web, token)
	}
	refused := func(name string, port func(*Servers) int) func(context.Context, *stage, string) string {
		return func(ctx context.Context, s *stage, token string) string {
			p := port(s.srv)
			if got := s.http(ctx, name, p, hostPort(name, p), "/"+token).leak(); got != "" {
				return got
			}
			return s.wantDenied(ctx, name)
		}
	}
	web := func(s *Servers) int { return s.web }
	return []Attack{
		{
			ID: "rebinding/changes", Title: "DNS rebinding", Again: true,
			Tries: "connects twice to each of six names whose answers alternate between a public address and 127.0.0.1", Holds: "no connection reaches 127.0.0.1",
			needs: needsResolver, control: private,
			attack: func(ctx context.Context, s *stage, token string) string {
				for i := range 6 {
					name := fmt.Sprintf("%s-%d.%s", newToken(), i, rebindName)
					for range 2 {
						if got := s.impatient(ctx, name, token); got != "" {
							return got
						}
					}
				}
				return ""
			},
		},
		{
			ID: "rebinding/both", Title: "a public and a private address in one answer",
			Tries: "connects to names that have both addresses", Holds: "only the public one is tried",
			needs: needsResolver, control: private,
			attack: func(ctx context.Context, s *stage, token string) string {
				return s.impatient(ctx, newToken()+".both."+rebindName, token)
			},
		},
		{
			ID: "rebinding/metadata", Title: "a name of the metadata service",
			Tries: "connects to an allowed private name that resolves to 169.254.169.254", Holds: "refused: \"private\" does not open metadata services",
			needs: needsResolver, control: private, attack: refused(metaName, func(*Servers) int { return 80 }),
		},
		{
			ID: "rebinding/mapped", Title: "a name with loopback inside IPv6",
			Tries: "connects to an allowed name that resolves to ::ffff:127.0.0.1", Holds: "refused",
			needs: needsResolver, control: private, attack: refused(mappedName, web),
		},
		{
			ID: "rebinding/translated", Title: "a name with loopback behind NAT64",
			Tries: "connects to an allowed name that resolves to 64:ff9b::7f00:1", Holds: "refused",
			needs: needsResolver, control: private, attack: refused(natName, web),
		},
	}
}

// impatient makes a request and gives up early: what it asks for must not answer.
func (s *stage) impatient(ctx context.Context, name, token string) string {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	c, err := s.connect(ctx, name, s.srv.web)
	if err != nil {
		return ""
	}
	defer c.Close()
	stop := time.AfterFunc(blocked/2, func() { c.Close() })
	defer stop.Stop()
	a := s.send(c, get(hostPort(name, s.srv.web), "/"+token), "GET")
	if a.status == 200 {
		return "the program got " + a.String()
	}
	return ""
}

// wantDenied waits for a record of a refusal. It returns what is wrong with the records of a
// host.
func (s *stage) wantDenied(ctx context.Context, host string) string {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	for {
		denied := false
		for d, err := range s.cfg.Client.Egress.All(ctx, api.EgressFilter{Sandbox: s.sandbox.sandbox.ID(), Host: host}) {
			if err != nil {
				return "no record of the refusal: " + err.Error()
			}
			if d.Result == api.EgressFailed || d.Address != "" || d.Status != 0 {
				return fmt.Sprintf("the record says %s, address %q: %s", d.Result, d.Address, d.Reason)
			}
			denied = denied || d.Result == api.EgressDenied
		}
		if denied {
			return ""
		}
		select {
		case <-ctx.Done():
			return "no record of the refusal"
		case <-time.After(50 * time.Millisecond):
		}
	}
}
