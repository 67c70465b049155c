package microvm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/backend/microvm/kernel"
	"hortus.dev/internal/storage/layer"
)

// newTest makes a backend whose QEMU is a script, on a host with a device of KVM.
func newTest(t *testing.T, script string, cfg Config) *Backend {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	var err error
	if cfg.Layers, err = layer.Open(filepath.Join(dir, "layers")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cfg.Layers.Close)
	cfg.Dir, cfg.Images, cfg.Kernel = filepath.Join(dir, "run"), filepath.Join(dir, "images"), filepath.Join(dir, "kernel")
	cfg.Guest = write("guest", "a guest", 0o755)
	cfg.QEMU = write("qemu", "#!/bin/sh\n[ \"$1\" = --version ] && { echo 'QEMU emulator version 9.9.9 (test)'; exit; }\n"+script, 0o755)
	write("host/boot/vmlinuz-6.1", "a kernel", 0o644)
	write("host/lib/modules/6.1/other.ko", "a module that is not needed", 0o644)
	if _, err := kernel.Install(t.Context(), cfg.Kernel, filepath.Join(dir, "host"), ""); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // of a script, for QEMU's user
		t.Fatal(err)
	}
	for p := dir; p != os.TempDir() && p != "/"; p = filepath.Dir(p) {
		os.Chmod(p, 0o755)
	}
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	b.kvm = write("kvm", "", 0o666)
	return b
}

// TestProbeNeedsABoot: a device of KVM that can be opened proves nothing. A machine that does not answer in time, or ends,
// is no KVM; emulation is not used unless the configuration allows it; and nothing is left.
func TestProbeNeedsABoot(t *testing.T) {
	for name, c := range map[string]struct {
		script, want string
		within       time.Duration
	}{
		"a machine that hangs": {"exec sleep 1000", "it does not answer within 300ms", 300 * time.Millisecond},
		"a machine that ends":  {"echo 'Could not access KVM kernel module' >&2; exit 1", "Could not access KVM kernel module", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTest(t, c.script, Config{ProbeTimeout: c.within})
			r := b.Probe(t.Context())
			a, ok := r.Has(api.CapStart)
			if ok || !strings.Contains(a.Reason, c.want) || !strings.Contains(a.Fix, "microvm.emulate") {
				t.Errorf("start: %+v, want a reason with %q", a, c.want)
			}
			for _, a := range r.Abilities {
				if a.OK {
					t.Errorf("the report has %s", a.Capability)
				}
			}
			entries, err := os.ReadDir(b.dir)
			if err != nil || len(entries) > 0 {
				t.Errorf("the probe left %v, %v", entries, err)
			}
			if groups := b.cgroups.List(); len(groups) > 0 {
				t.Errorf("the probe left the control groups %v", groups)
			}
		})
	}
}

// TestProbeSaysWhatIsMissing: each missing part has a reason and a fix.
func TestProbeSaysWhatIsMissing(t *testing.T) {
	b := newTest(t, "", Config{})
	b.kvm = "/nonexistent/kvm"
	if a, ok := b.Probe(t.Context()).Has(api.CapStart); ok || !strings.Contains(a.Reason, "no KVM") {
		t.Errorf("without KVM: %+v", a)
	}
	b.cfg.QEMU = "/nonexistent/qemu"
	if a, ok := b.Probe(t.Context()).Has(api.CapStart); ok || !strings.Contains(a.Fix, "apt-get install qemu-system-x86") {
		t.Errorf("without QEMU: %+v", a)
	}
	b = newTest(t, "", Config{})
	b.cfg.Kernel = t.TempDir()
	if a, ok := b.Probe(t.Context()).Has(api.CapStart); ok || !strings.Contains(a.Fix, "hortus microvm install") {
		t.Errorf("without a kernel: %+v", a)
	}
}
