package conformance

import (
	"path/filepath"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/gvisor"
	"hortus.dev/internal/sandbox/sandboxtest"
	"hortus.dev/test/tools"
)

// newGvisor makes the gvisor backend over a bench. It skips the test where there
// can be none.
func newGvisor(t *testing.T, bench *bench) *gvisor.Backend {
	t.Helper()
	dir := tools.Dir(t)
	jail := bench.jail()
	jail.Guest = filepath.Join(dir, tools.Guest)
	b, err := gvisor.New(gvisor.Config{Tools: dir, Version: "test", GuestDigest: "test", Jail: jail})
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
