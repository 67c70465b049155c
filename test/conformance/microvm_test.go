package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
// some seconds, so it is a soak test, with the cases of the backend's own work; the guest is that of gVisor.
func TestMicroVM(t *testing.T) {
	tier.Soak(t)
	bench := newBench(t)
	bench.tree = smallTree(t, bench.layers)
	b := newMicroVM(t, bench)
	suite := &sandboxtest.Suite{Fixture: bench.fixture(b, sandboxtest.Fixture{OwnKernel: true}), Report: b.Probe(t.Context())}
	ran := 0
	for _, c := range sandboxtest.Cases() {
		if !slices.Contains(onMicroVM, c.Name) {
			continue
		}
		ran++
		t.Run(c.Name, func(t *testing.T) {
			for _, n := range c.Needs {
				if a, ok := suite.Report.Has(n); !ok {
					t.Skipf("the backend lacks %s: %s", n, a.Reason)
				}
			}
			c.Check(t, suite)
		})
	}
	if ran != len(onMicroVM) {
		t.Errorf("%d cases ran, want %d", ran, len(onMicroVM))
	}
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

// onMicroVM are the cases that are run. fork/no-page-is-anothers is not: it has two dozen machines at a time, which emulation
// cannot run.
var onMicroVM = []string{
	"report/complete", "report/refuses-what-it-lacks", "report/refuses-an-egress-policy-it-cannot-enforce",
	"life/start-and-kill", "life/kill-takes-every-descendant", "life/kill-at-once", "life/pause", "life/kill-while-paused", "life/ends-by-itself",
	"life/canceled-start-leaves-nothing", "life/unknown-layer", "ahead/claim", "ahead/killed-while-it-waits",
	"command/exit-codes", "command/files", "limit/processes", "limit/disk", "link/quiesce", "egress/connect-by-name", "egress/nothing-else-leaves",
	"wall/user-identity", "wall/root-identity", "wall/guest-out-of-reach", "wall/host-files-are-out-of-sight", "wall/no-network",
	"save/what-was-written-is-there", "save/children-and-parent-go-their-own-ways", "save/memory-goes-on-where-it-is-saved", "save/hold",
	"fork/processes-of-a-child-fork", "fork/copied-memory",
}
