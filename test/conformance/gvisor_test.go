package conformance

import (
	"path/filepath"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/gvisor"
	"hortus.dev/test/sandboxtest"
	"hortus.dev/test/tier"
	"hortus.dev/test/tools"
)

// newGvisor makes the gvisor backend over a bench. It skips the test where there
// can be none.
func newGvisor(t *testing.T, bench *bench) *gvisor.Backend {
	t.Helper()
	return gvisorOf(t, bench, gvisor.Config{})
}

// gvisorOf is newGvisor with a configuration of which the rest is set.
func gvisorOf(t *testing.T, bench *bench, cfg gvisor.Config) *gvisor.Backend {
	t.Helper()
	dir := tools.Dir(t)
	jail := bench.jail()
	jail.Guest = filepath.Join(dir, tools.Guest)
	cfg.Tools, cfg.Version, cfg.GuestDigest, cfg.Jail = dir, "test", "test", jail
	b, err := gvisor.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	closed(t, b)
	if a, ok := b.Probe(t.Context()).Has(api.CapStart); !ok {
		tools.Cannot(t, "this host cannot run gvisor: %s; %s", a.Reason, a.Fix)
	}
	return b
}

func TestGvisor(t *testing.T) {
	bench := newBench(t)
	bench.suite(t, newGvisor(t, bench), sandboxtest.Fixture{OwnKernel: true})
}

// TestGvisorCopiesMemory: a backend whose sandboxes share no memory forks and saves as well.
func TestGvisorCopiesMemory(t *testing.T) {
	tier.AnyUser(t)
	bench := newBench(t)
	b := gvisorOf(t, bench, gvisor.Config{CopyMemory: true})
	suite := &sandboxtest.Suite{Fixture: bench.fixture(b, sandboxtest.Fixture{OwnKernel: true}), Report: b.Probe(t.Context())}
	ran := 0
	for _, c := range sandboxtest.Cases() {
		if c.Name == "fork/no-page-is-anothers" || c.Name == "fork/copied-memory" {
			ran++
			t.Run(c.Name, func(t *testing.T) { c.Check(t, suite) })
		}
	}
	if ran != 2 {
		t.Errorf("%d cases ran", ran)
	}
}
