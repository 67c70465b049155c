package attack

import (
	"path/filepath"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/dockertest"
	"hortus.dev/test/tools"
)

// engine is the Docker engine of all tests, which starts with the first that needs it.
var engine sharedEngine

type sharedEngine struct {
	once sync.Once
	e    *dockertest.Engine
	err  error
}

// host returns its address. It skips the test on a machine that can have none.
func (s *sharedEngine) host(t *testing.T) string {
	t.Helper()
	s.once.Do(func() { s.e, s.err = dockertest.Open() })
	if dockertest.Missing(s.err) {
		t.Skip(s.err)
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.e.Host
}

func (s *sharedEngine) close() error {
	if s.e == nil {
		return nil
	}
	return s.e.Close()
}

// staticGuest is the path of a guest that runs without files.
func staticGuest(t *testing.T) string {
	t.Helper()
	return filepath.Join(tools.Dir(t), tools.Guest)
}

// inCI are the attacks that CI makes on Docker: what an engine adds to or takes from the walls. The others
// end at the guest or the stage, which are those of containers, and are in the soak tier.
var inCI = map[string]bool{
	"TestEscapes": true, "TestSetuidFile": true, "TestHostSockets": true, "TestPathsOfTheHost": true, "TestNeighboursAreNotSeen": true,
}

// notByEngine skips an attack on Docker, and on the engine of a cluster's node: why says what an engine does, which
// docs/security-claims.md names.
func (w *world) notByEngine(t *testing.T, why string) {
	t.Helper()
	if w.isolation == "docker" || w.isolation == "kubernetes" {
		t.Skipf("%s lacks a part of %s: %s", w.isolation, api.CapIsolated, why)
	}
}
