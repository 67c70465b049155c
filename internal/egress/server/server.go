package server

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"hortus.dev/api"
	"hortus.dev/internal/egress"
	"hortus.dev/internal/egress/authority"
	"hortus.dev/internal/egress/gateway"
	"hortus.dev/internal/egress/policy"
	"hortus.dev/internal/egress/preset"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/tether"
)

// Config is what a Server is made from. Every field but Secrets and Logger is required.
type Config struct {
	Gateway   *gateway.Gateway
	Authority *authority.Authority
	// Presets returns a rule set by its name: KindNotFound if there is none.
	Presets func(ctx context.Context, name string) (preset.Preset, error)
	// Secrets are what sandboxes may use; the gateway has a broker of them. Without Secrets no
	// sandbox can use any.
	Secrets Secrets
	Logger  *slog.Logger
}

// Server implements sandbox.EgressServer.
type Server struct {
	cfg Config

	mu       sync.Mutex
	sessions map[*session]struct{} // those that have secrets
	ruled    map[*session][]string // the secrets that header rules of sessions name
}

// New returns a Server.
func New(cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{cfg: cfg, sessions: map[*session]struct{}{}, ruled: map[*session][]string{}}
}

// Resolve validates a policy and appends the rules of its presets. Rules that an earlier call
// appended are replaced. See sandbox.EgressServer.
func (s *Server) Resolve(ctx context.Context, p api.EgressPolicy) (api.EgressPolicy, map[string]string, error) {
	p.Rules = slices.DeleteFunc(slices.Clone(p.Rules), func(r api.EgressRule) bool {
		return r.Source != "" && slices.Contains(p.Presets, r.Source)
	})
	var env map[string]string
	for _, name := range p.Presets {
		set, err := s.cfg.Presets(ctx, name)
		if err != nil {
			return p, nil, err
		}
		for _, w := range set.Warnings {
			s.cfg.Logger.Warn("egress preset", "preset", name, "warning", w)
		}
		for _, r := range set.Rules {
			r.Source = name
			p.Rules = append(p.Rules, r)
		}
		if len(set.Env) > 0 && env == nil {
			env = map[string]string{}
		}
		maps.Copy(env, set.Env)
	}
	_, err := policy.Compile(p, nil)
	return p, env, err
}

// Serve begins to serve a sandbox. See sandbox.EgressServer.
func (s *Server) Serve(row api.Sandbox, link tether.Link, commands func() []string) sandbox.EgressSession {
	lineage := row.Lineage
	if lineage == "" {
		lineage = row.ID
	}
	peer := egress.Peer{
		Sandbox: row.ID, Task: row.Task, Account: row.Account, Lineage: string(lineage),
		Ceiling: row.MaxEgress, Commands: commands, Link: link,
	}
	// Nothing is allowed until the policy is applied, because programs do not trust the
	// authority before.
	g, err := s.cfg.Gateway.Serve(peer, api.EgressPolicy{})
	if err != nil {
		s.cfg.Logger.Error("outgoing connections are not served", "sandbox", row.ID, "error", err)
		return &session{err: err}
	}
	out := &session{server: s, peer: peer, gateway: g, lineage: string(lineage), link: link}
	if out.Hold(row); len(out.held) > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sessions[out] = struct{}{}
	}
	return out
}
