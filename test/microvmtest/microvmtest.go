package microvmtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/microvm"
	"hortus.dev/internal/backend/microvm/kernel"
	"hortus.dev/test/tools"
)

// KernelVariable names the package, or the directory, with the kernel of the machines; / if it is not set.
const KernelVariable = "HORTUS_TEST_KERNEL"

// New makes a backend, or skips the test on a host that lacks a part of it. shared is a directory for what is made once for several
// backends.
func New(t *testing.T, cfg microvm.Config, shared string) *microvm.Backend {
	t.Helper()
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		tools.Cannot(t, "QEMU is not installed: %v", err)
	}
	cfg.Kernel, cfg.Images = Kernel(t, shared), filepath.Join(shared, "images")
	cfg.Guest, cfg.Emulate = filepath.Join(tools.Dir(t), tools.Guest), true
	b, err := microvm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if a, ok := b.Probe(t.Context()).Has(api.CapStart); !ok {
		b.Close()
		t.Fatalf("no machine starts: %s; %s", a.Reason, a.Fix)
	} else {
		t.Log(a.Reason)
	}
	return b
}

// Kernel installs the kernel below shared, unless it is there, and returns its directory.
func Kernel(t *testing.T, shared string) string {
	t.Helper()
	dir := filepath.Join(shared, "kernel")
	if _, err := kernel.Open(dir); err == nil {
		return dir
	}
	from := os.Getenv(KernelVariable)
	if from == "" {
		from = "/" // a machine with a cloud kernel, though it may run another one
	}
	if _, err := kernel.Install(t.Context(), dir, from, ""); err != nil {
		tools.Cannot(t, "no kernel for machines: %v; set %s", err, KernelVariable)
	}
	return dir
}
