package daemon

import (
	"context"
	"crypto/x509"
	"net/url"
	"os"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model/anthropic"
	"hortus.dev/internal/agent/model/openai"
	"hortus.dev/internal/egress/audit"
	"hortus.dev/internal/egress/authority"
	"hortus.dev/internal/egress/dial"
	"hortus.dev/internal/egress/gateway"
	"hortus.dev/internal/egress/preset"
	"hortus.dev/internal/egress/registrycache"
	"hortus.dev/internal/egress/server"
	"hortus.dev/internal/platform/bench/outgoing"
	"hortus.dev/internal/platform/proc"
	"hortus.dev/internal/platform/secretfile"
	"hortus.dev/internal/platform/telemetry"
	"hortus.dev/internal/repository/forge"
	"hortus.dev/internal/secret"
	"hortus.dev/internal/store/lists"
)

// EgressConfig configures the outgoing connections of sandboxes.
type EgressConfig struct {
	// Proxy is the URL of an HTTP proxy that every connection is made through; empty means
	// direct connections.
	Proxy string
	// CAFile is a PEM file with authorities that servers may have, besides those of the host.
	CAFile string
	// CacheBytes is the maximum size of the package cache; 0 means none.
	CacheBytes int64
	// E2BInternet allows all public hosts to E2B clients that do not restrict a sandbox.
	E2BInternet bool
	// Resolver resolves names; nil means that of the host.
	Resolver dial.Resolver
}

// openEgress opens what serves the outgoing connections of sandboxes.
func (s *System) openEgress() (*server.Server, error) {
	key, err := secretfile.Open(s.dir.Path("egress.key"))
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "data directory: %w", err)
	}
	authorities, err := authority.New(key)
	if err != nil {
		return nil, err
	}
	dialer, err := s.dialer()
	if err != nil {
		return nil, err
	}
	roots, err := s.egressRoots()
	if err != nil {
		return nil, err
	}
	presets, err := preset.New(preset.Config{Getenv: s.cfg.Getenv, Home: s.cfg.Home, Git: s.forgeHosts(), Models: s.modelHosts(), Public: publicHosts(), Defaults: new(preset.Tools).Defaults})
	if err != nil {
		return nil, err
	}
	s.recorder = audit.NewRecorder(audit.Config{Store: s.db, Events: s.events, Count: s.telemetry.Egress, Logger: s.log})
	s.onClose(s.recorder.Close)
	if err := proc.NoCoreDumps(); err != nil { // values of secrets are in memory
		return nil, err
	}
	s.secrets = secret.New(secret.Config{Rows: s.rows, Getenv: s.cfg.Getenv, Count: s.telemetry.Secret, Logger: s.log, Changed: func(ctx context.Context, account, name string) {
		s.outgoing.SecretChanged(ctx, account, name)
		s.sandboxes.SecretChanged(ctx, account, name)
	}})
	s.onClose(s.secrets.Close)
	s.asks = audit.NewAsks(audit.AsksConfig{Record: s.recorder.Record, Remember: func(ctx context.Context, id api.SandboxID, rule api.EgressRule) error {
		_, err := s.sandboxes.AddEgressRules(ctx, id, []api.EgressRule{rule})
		return err
	}})
	s.onClose(func(context.Context) error { s.asks.Close(); return nil })
	cfg := gateway.Config{Dialer: dialer, Authority: authorities, Recorder: s.recorder, Asker: s.asks, Roots: roots, Logger: s.log, Broker: server.NewBroker(s.secrets, dialer, roots, s.log)}
	if n := s.cfg.Egress.CacheBytes; n > 0 {
		if s.packages, err = registrycache.New(registrycache.Config{Dir: s.dir.Path("packages"), MaxBytes: n, Logger: s.log}); err != nil {
			return nil, err
		}
		s.onClose(func(context.Context) error { return s.packages.Close() })
		cfg.Cache = s.packages
	}
	out := server.New(server.Config{Gateway: gateway.New(cfg), Authority: authorities, Presets: presets.Expand, Secrets: s.secrets, Logger: s.log})
	s.divert = func(id api.SandboxID, o outgoing.Outside) func() {
		cfg := cfg
		cfg.Dialer, cfg.Roots = dial.New(dial.Config{Resolver: o.Resolver}), o.Roots
		return out.Divert(id, gateway.New(cfg))
	}
	return out, nil
}

// dialer makes what connects to servers.
func (s *System) dialer() (*dial.Dialer, error) {
	cfg := dial.Config{Resolver: s.cfg.Egress.Resolver}
	if text := s.cfg.Egress.Proxy; text != "" {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" || u.Host == "" {
			return nil, api.Errorf(api.KindInvalid, "setting egress.proxy is not the URL of an HTTP proxy").
				WithHint("use for example http://proxy.example.org:3128")
		}
		cfg.Proxy = func(string, int) *url.URL { return u }
	}
	return dial.New(cfg), nil
}

// egressRoots returns the authorities that servers may have; nil means those of the host.
func (s *System) egressRoots() (*x509.CertPool, error) {
	file := s.cfg.Egress.CAFile
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "setting egress.ca-file: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "the certificate authorities of this machine: %w", err)
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, api.Errorf(api.KindInvalid, "setting egress.ca-file: %s has no certificate in PEM format", file)
	}
	return roots, nil
}

// forgeHosts returns the hosts of the preset "git".
func (s *System) forgeHosts() []string {
	hosts := forge.PublicHosts()
	for _, f := range s.cfg.Forges {
		if f.URL != "" {
			hosts = append(hosts, f.URL)
			continue
		}
		hosts = append(hosts, f.Host)
	}
	return hosts
}

// modelHosts returns the hosts of the preset "models".
func (s *System) modelHosts() (hosts []string) {
	for name, base := range map[string]string{"ANTHROPIC_BASE_URL": anthropic.DefaultBaseURL, "OPENAI_BASE_URL": openai.DefaultBaseURL} {
		for _, variable := range []string{name, "HORTUS_" + name} {
			if v := s.cfg.Getenv(variable); v != "" {
				base = v
			}
		}
		hosts = append(hosts, base)
	}
	return hosts
}

// countPackages returns what the package cache counted.
func (s *System) countPackages() (c telemetry.Packages) {
	if s.packages != nil {
		n := s.packages.Stats()
		c = telemetry.Packages{Hits: n.Hits, Misses: n.Misses, Served: n.Served, Stored: n.Bytes}
	}
	return c
}

// decisions implements access.Decisions over the store, with what is not stored yet.
type decisions struct {
	rows     lists.Lists
	recorder *audit.Recorder
}

// EgressPage implements access.Decisions.
func (d decisions) EgressPage(ctx context.Context, account string, f api.EgressFilter, p api.PageRequest) ([]api.EgressDecision, string, error) {
	if err := d.recorder.Flush(ctx); err != nil {
		return nil, "", err
	}
	return d.rows.EgressPage(ctx, account, f, p)
}

// publicHosts are hosts of the presets "git" and "models" that are not in a private network.
func publicHosts() []string {
	hosts := forge.PublicHosts()
	for _, base := range []string{anthropic.DefaultBaseURL, openai.DefaultBaseURL} {
		if u, err := url.Parse(base); err == nil {
			hosts = append(hosts, u.Hostname())
		}
	}
	return hosts
}
