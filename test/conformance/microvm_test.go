package conformance

import (
	"path/filepath"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/microvm"
	"hortus.dev/test/microvmtest"
	"hortus.dev/test/sandboxtest"
	"hortus.dev/test/tier"
)

// TestMicroVM runs the contract against virtual machines, under emulation if this host has no KVM. Each boot then takes
// some seconds, so it is a soak test; the guest is that of gVisor. Cases do not run side by side: a machine that is emulated has a whole processor.
func TestMicroVM(t *testing.T) {
	tier.Soak(t)
	bench := newBench(t)
	b := newMicroVM(t, bench)
	suite := &sandboxtest.Suite{Fixture: bench.fixture(b, sandboxtest.Fixture{OwnKernel: true, FullKernel: true}), Report: b.Probe(t.Context())}
	emulated := false
	for i, a := range suite.Report.Abilities {
		// QEMU promises no security for its emulation. What the machine and its guest do is the same, and checked here.
		if a.Capability == api.CapIsolated && !a.OK {
			suite.Report.Abilities[i].OK, emulated = true, true
		}
	}
	t.Run("documented", func(t *testing.T) { sandboxtest.Documented(t, b, suite.Report) })
	for _, c := range sandboxtest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			if a, lacks := c.Lacks(suite.Report); lacks {
				t.Skipf("the backend lacks %s: %s", a.Capability, a.Reason)
			}
			if why := notEmulated[c.Name]; emulated && why != "" {
				t.Skipf("not under emulation: %s", why)
			}
			c.Check(t, suite)
		})
	}
}

// notEmulated are cases that emulation is too slow for.
var notEmulated = map[string]string{
	"fork/no-page-is-anothers": "it has two dozen machines at a time",
}

// newMicroVM makes the microvm backend over a bench with a small tree.
func newMicroVM(t *testing.T, bench *bench) *microvm.Backend {
	t.Helper()
	bench.tree = microvmtest.Tree(t, bench.layers)
	b := microvmtest.New(t, microvm.Config{Dir: bench.run, Layers: bench.layers}, filepath.Join(filepath.Dir(layersDir), "machines"))
	closed(t, b)
	return b
}
