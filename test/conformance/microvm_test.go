package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/microvm"
	"hortus.dev/internal/backend/microvm/kernel"
	"hortus.dev/test/sandboxtest"
	"hortus.dev/test/tier"
	"hortus.dev/test/tools"
)

// kernelVariable names the package, or the directory, with the kernel of the machines.
const kernelVariable = "HORTUS_TEST_KERNEL"

// TestMicroVM runs the contract against virtual machines, under emulation if this host has no KVM. Each boot then takes
// some seconds, so it is a soak test; the guest is that of gVisor. Cases do not run side by side: a machine that is emulated has a whole processor.
func TestMicroVM(t *testing.T) {
	tier.Soak(t)
	bench := newBench(t)
	bench.tree = smallTree(t, bench.layers)
	b := newMicroVM(t, bench)
	suite := &sandboxtest.Suite{Fixture: bench.fixture(b, sandboxtest.Fixture{OwnKernel: true}), Report: b.Probe(t.Context())}
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

// newMicroVM makes the microvm backend over a bench, or skips the test on a host that lacks a part of it.
func newMicroVM(t *testing.T, bench *bench) *microvm.Backend {
	t.Helper()
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		tools.Cannot(t, "QEMU is not installed: %v", err)
	}
	from := os.Getenv(kernelVariable)
	if from == "" {
		from = "/" // a machine with a cloud kernel, though it may run another one
	}
	dir := filepath.Join(bench.dir, "kernel")
	if _, err := kernel.Install(t.Context(), dir, from, ""); err != nil {
		tools.Cannot(t, "no kernel for machines: %v; set %s", err, kernelVariable)
	}
	b, err := microvm.New(microvm.Config{Dir: bench.run, Images: filepath.Join(filepath.Dir(layersDir), "images"), Layers: bench.layers, Kernel: dir,
		Guest: filepath.Join(tools.Dir(t), tools.Guest), Emulate: true})
	if err != nil {
		t.Fatal(err)
	}
	closed(t, b)
	if a, ok := b.Probe(t.Context()).Has(api.CapStart); !ok {
		t.Fatalf("no machine starts: %s; %s", a.Reason, a.Fix)
	} else {
		t.Log(a.Reason)
	}
	return b
}
