package daemon

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/daemon/network"
	"hortus.dev/internal/egress/audit"
	"hortus.dev/internal/egress/authority"
	"hortus.dev/internal/egress/gateway"
	"hortus.dev/internal/egress/preset"
	"hortus.dev/internal/egress/registrycache"
	"hortus.dev/internal/egress/server"
	"hortus.dev/internal/platform/proc"
	"hortus.dev/internal/secret"
	"hortus.dev/internal/telemetry"
)

// openEgress opens what serves the outgoing connections of sandboxes.
func (s *System) openEgress(ctx context.Context) (*server.Server, error) {
	// A sandbox that is moved to another node trusts the authority that it had.
	key, err := s.sharedSecret(ctx, "egress.key")
	if err != nil {
		return nil, err
	}
	authorities, err := authority.New(key)
	if err != nil {
		return nil, err
	}
	dialer, err := s.cfg.Egress.Dialer()
	if err != nil {
		return nil, err
	}
	roots, err := s.cfg.Egress.Roots()
	if err != nil {
		return nil, err
	}
	presets, err := preset.New(preset.Config{Getenv: s.cfg.Getenv, Home: s.cfg.Home, Git: network.ForgeHosts(s.cfg.Forges), Models: network.ModelHosts(s.cfg.Getenv), Public: network.PublicHosts(), Defaults: new(preset.Tools).Defaults})
	if err != nil {
		return nil, err
	}
	s.recorder = audit.NewRecorder(audit.Config{Store: s.db, Now: s.db.Now, Events: s.events, Count: s.telemetry.Egress, Logger: s.log})
	s.onClose(s.recorder.Close)
	if err := proc.NoCoreDumps(); err != nil { // values of secrets are in memory
		return nil, err
	}
	s.secrets = secret.New(secret.Config{Rows: s.db, Now: s.db.Now, Getenv: s.cfg.Getenv, Count: s.telemetry.Secret, Logger: s.log, Changed: func(ctx context.Context, account, name string) {
		s.outgoing.SecretChanged(ctx, account, name)
		s.sandboxes.Policies.SecretChanged(ctx, account, name)
	}})
	s.onClose(s.secrets.Close)
	s.asks = audit.NewAsks(audit.AsksConfig{Now: s.db.Now, Record: s.recorder.Record, Remember: func(ctx context.Context, id api.SandboxID, rule api.EgressRule) error {
		_, err := s.sandboxes.Policies.AddEgressRules(ctx, id, []api.EgressRule{rule})
		return err
	}})
	s.onClose(func(context.Context) error { s.asks.Close(); return nil })
	cfg := gateway.Config{Now: s.db.Now, Dialer: dialer, Authority: authorities, Recorder: s.recorder, Asker: s.asks, Roots: roots, Logger: s.log, Broker: server.NewBroker(s.secrets, dialer, roots, s.db.Now, s.log)}
	if n := s.cfg.Egress.CacheBytes; n > 0 {
		if s.packages, err = registrycache.New(registrycache.Config{Dir: s.dir.Path("packages"), MaxBytes: n, Space: s.space.In(s.dir.Path("packages")), Logger: s.log}); err != nil {
			return nil, err
		}
		s.onClose(func(context.Context) error { return s.packages.Close() })
		cfg.Cache = s.packages
	}
	return server.New(server.Config{Gateway: gateway.New(cfg), Authority: authorities, Presets: presets.Expand, Secrets: s.secrets, Logger: s.log}), nil
}

// countPackages returns what the package cache counted.
func (s *System) countPackages() (c telemetry.Packages) {
	if s.packages != nil {
		n := s.packages.Stats()
		c = telemetry.Packages{Hits: n.Hits, Misses: n.Misses, Served: n.Served, Stored: n.Bytes}
	}
	return c
}
