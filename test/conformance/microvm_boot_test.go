package conformance

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/backend/microvm/kernel"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/test/microvmtest"
	"hortus.dev/test/tier"
)

// TestMicroVMBoot compares the start of a sandbox, until its guest serves, with a plain boot of the same kernel by QEMU,
// until it looks for its first process, in one run. Most of the difference is the modules and the guest.
func TestMicroVMBoot(t *testing.T) {
	tier.Soak(t)
	bench := newBench(t)
	b := newMicroVM(t, bench)
	k, err := kernel.Open(microvmtest.Kernel(t, filepath.Join(filepath.Dir(layersDir), "machines")))
	if err != nil {
		t.Fatal(err)
	}
	accelerator := "tcg"
	if _, ok := b.Probe(t.Context()).Has(api.CapIsolated); ok {
		accelerator = "kvm"
	}
	const rounds, most = 3, 6
	plain, ours := time.Hour, time.Hour
	for range rounds {
		began := time.Now()
		cmd := exec.CommandContext(t.Context(), "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "q35,accel="+accelerator,
			"-cpu", "max", "-m", "512", "-kernel", k.Image, "-initrd", k.Modules, "-append", "quiet panic=-1 mitigations=off tsc=reliable no_timer_check rdinit=/none init=/none")
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		plain = min(plain, time.Since(began))
		began = time.Now()
		limits := api.DefaultLimits()
		m, err := b.Start(t.Context(), sandbox.Spec{ID: api.NewSandboxID(), Hostname: "boot", Template: "small", Layers: []layer.Digest{bench.tree}, Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		ours = min(ours, time.Since(began))
		if _, err := m.Kill(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	ratio := ours.Seconds() / plain.Seconds()
	t.Logf("%s: plain boot %v, sandbox %v, ratio %.2f", accelerator, plain, ours, ratio)
	if ratio > most {
		t.Errorf("a sandbox takes %.2f times a plain boot, the maximum is %d", ratio, most)
	}
}

// TestMicroVMAdopt: a machine outlives the backend that started it. Another one connects again, also if the machine is
// paused, and a machine that nobody adopts is reclaimed.
func TestMicroVMAdopt(t *testing.T) {
	tier.Soak(t)
	bench := newBench(t)
	b := newMicroVM(t, bench)
	id := api.NewSandboxID()
	m, err := b.Start(t.Context(), sandbox.Spec{ID: id, Hostname: "adopt", Template: "small", Layers: []layer.Digest{bench.tree}, Limits: api.DefaultLimits()})
	if err != nil {
		t.Fatal(err)
	}
	healthy := func(m sandbox.Machine) {
		t.Helper()
		c, err := m.Link().Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET /health HTTP/1.1\r\nHost: guest\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != http.StatusNoContent {
			t.Fatalf("health: %v, %v", resp, err)
		}
	}
	healthy(m)
	for _, paused := range []bool{false, true} {
		if paused {
			if err := m.Pause(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		a, err := b.Adopt(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if a.Paused != paused || a.Spec.ID != id {
			t.Errorf("adopted: paused %v, %+v", a.Paused, a.Spec)
		}
		m = a.Machine
		if paused {
			if err := m.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		healthy(m)
	}
	if err := m.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ids, err := b.Orphans(t.Context()); err != nil || len(ids) != 1 || ids[0] != id {
		t.Errorf("orphans %v, %v", ids, err)
	}
	proof, err := b.Reclaim(t.Context(), id)
	if err != nil || proof.Left != 0 || proof.Killed == 0 {
		t.Errorf("reclaim: %+v, %v", proof, err)
	}
	if _, err := b.Adopt(t.Context(), id); api.KindOf(err) != api.KindNotFound {
		t.Errorf("adopt after a reclaim: %v", err)
	}
	if left := leftovers(bench.run, id); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// TestMicroVMHostileImage: a layer that has links in place of the directories which the first process mounts on does not move the
// mounts. The control is its file, which is there.
func TestMicroVMHostileImage(t *testing.T) {
	tier.Soak(t)
	bench := newBench(t)
	b := newMicroVM(t, bench)
	sum := sha256.Sum256([]byte(t.Name()))
	evil, err := bench.layers.Put(t.Context(), layer.Digest("sha256-"+hex.EncodeToString(sum[:])), func(_ context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		err := os.MkdirAll(filepath.Join(root, "etc"), 0o755)
		for name, target := range map[string]string{"dev": "/etc", "proc": "../../etc", "sys": "etc", initns.EngineDir: "/nonexistent/../etc"} {
			err = errors.Join(err, os.Symlink(target, filepath.Join(root, name)))
		}
		return layer.Tree{Root: root}, errors.Join(err, os.WriteFile(filepath.Join(root, "etc/evil"), []byte("there"), 0o644))
	})
	if err != nil {
		t.Fatal(err)
	}
	m, err := b.Start(t.Context(), sandbox.Spec{ID: api.NewSandboxID(), Hostname: "evil", Template: "small", Layers: []layer.Digest{bench.tree, evil.Digest}, Limits: api.DefaultLimits()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Kill(context.WithoutCancel(t.Context()))
	guest := envd.NewClient(envd.ClientConfig{Dial: m.Link().Open})
	defer guest.Close()
	ps, err := guest.Start(t.Context(), &envd.StartRequest{Process: &envd.ProcessConfig{Cmd: "sh", Args: []string{"-c",
		"cat /etc/evil; for d in dev proc sys; do [ -L /$d ] && echo /$d is a link; done; [ -c /dev/null ] && [ -d /proc/self ] && [ -d /sys/fs/cgroup ] && ! ls -A /etc | grep -E 'null|self|hortus-guest'"}}}, envd.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer ps.Close()
	out := ""
	for {
		ev, err := ps.Next()
		if err != nil {
			t.Fatal(err)
		}
		if ev.Data != nil {
			out += string(ev.Data.Stdout) + string(ev.Data.Stderr)
		}
		if ev.End != nil {
			if ev.End.ExitCode != 0 || out != "there" {
				t.Errorf("exit %d, %q", ev.End.ExitCode, out)
			}
			return
		}
	}
}
