package daemon

import (
	"context"
	"fmt"
	"os"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/backend/binaries"
	"hortus.dev/internal/backend/daytona"
	"hortus.dev/internal/backend/e2b"
	"hortus.dev/internal/backend/kubernetes"
	"hortus.dev/internal/backend/remote"
)

// e2b creates the backend of a service with the API of E2B.
func (s *System) e2b(guest *os.File) (*remote.Backend, error) {
	r := s.cfg.E2B
	service, err := e2b.New(e2b.Config{APIURL: r.APIURL, SandboxURL: r.SandboxURL, Domain: strings.Join(r.Domains, ""), Template: r.Template, Key: s.keyOf(r)})
	if err != nil {
		return nil, err
	}
	s.onClose(func(context.Context) error { service.Close(); return nil })
	return s.remote(service, r, guest)
}

// daytona creates the backend of Daytona.
func (s *System) daytona(guest *os.File) (*remote.Backend, error) {
	r := s.cfg.Daytona
	service, err := daytona.New(daytona.Config{APIURL: r.APIURL, Domains: r.Domains, Snapshot: r.Template, Key: s.keyOf(r)})
	if err != nil {
		return nil, err
	}
	s.onClose(func(context.Context) error { service.Close(); return nil })
	return s.remote(service, r, guest)
}

// kubernetes creates the backend of a cluster.
func (s *System) kubernetes(ctx context.Context) (*remote.Backend, error) {
	k := s.cfg.Kubernetes
	k.Dir, k.Logger = s.dir.Path("run/"+kubernetes.Name), s.log
	cfg := remote.Config{Dir: k.Dir, Layers: s.layers, Workspaces: s.workspaces, Internet: k.Internet, Logger: s.log}
	if k.Namespace == "" {
		cfg.Missing = api.Ability{Reason: "no cluster is configured", Fix: "set kubernetes.namespace, image, guest-image and guest-url: docs/kubernetes.md"}
	}
	service, err := kubernetes.New(k.Config)
	if err != nil {
		return nil, err
	}
	s.onClose(func(context.Context) error { return service.Close() })
	if err := service.Await(ctx); err != nil {
		return nil, err
	}
	cfg.Service = service
	return remote.New(cfg)
}

// keyOf returns what looks up the API key of a service.
func (s *System) keyOf(r RemoteService) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		return s.secrets.KeyFor(ctx, r.KeySecret, "sandbox", r.APIURL)
	}
}

// remote creates the backend of a service.
func (s *System) remote(service remote.Service, r RemoteService, guest *os.File) (*remote.Backend, error) {
	cfg := remote.Config{
		Service: service, Dir: s.dir.Path("run/" + service.Name()), Guest: guest, Layers: s.layers, Workspaces: s.workspaces,
		Internet: r.Internet, Logger: s.log,
	}
	if r.KeySecret == "" {
		cfg.Missing = api.Ability{
			Reason: "no service is configured", Fix: fmt.Sprintf("hortus secret set %[1]s-key --daemon, then start the daemon with HORTUS_%[2]s_KEY_SECRET=%[1]s-key (or %[1]s.key-secret in the configuration)", service.Name(), strings.ToUpper(service.Name())),
		}
	} else if err := binaries.Static(guest); err != nil {
		cfg.Missing = api.Ability{Reason: err.Error(), Fix: api.HintOf(err)}
	}
	return remote.New(cfg)
}
