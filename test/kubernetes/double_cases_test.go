package kubernetes

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/patience"
	"hortus.dev/test/sandboxtest"
	"hortus.dev/test/tier"
)

func TestDouble(t *testing.T) {
	tier.AnyUser(t)
	double := newDouble(t)
	b := newBench(t, double.config())
	d := b.start(t)
	t.Run("life", func(t *testing.T) { lives(t, b, d) })
	d.service.Close()
	t.Run("restart", func(t *testing.T) { restarts(t, b) })
	t.Run("moved", func(t *testing.T) { moved(t, b) })
	d = b.start(t)
	t.Run("statistics", func(t *testing.T) { counts(t, d) })
	t.Run("deleted", func(t *testing.T) { deleted(t, d, double.kill) })
	t.Run("hostile", func(t *testing.T) { hostile(t, double, b, d) })
	t.Run("lies", func(t *testing.T) { lies(t, double, d) })
	t.Run("open network", func(t *testing.T) { openNetwork(t, double, d) })
	t.Run("unlimited", func(t *testing.T) { unlimited(t, double, d) })
	t.Run("conformance", func(t *testing.T) {
		if tier.Soaking() { // its pods have the network of this host
			d.service.Close()
			b.internet = true
			d = b.start(t)
		}
		sandboxtest.Run(t, func(t *testing.T) sandboxtest.Fixture {
			return sandboxtest.Fixture{
				Backend: d, Store: b.layers, Workspaces: b.workspaces, Few: true,
				Leftovers: func(id api.SandboxID) []string { return b.left(t, d, id) },
			}
		})
	})
}

// lives: one sandbox from its start to its end.
func lives(t *testing.T, b *bench, d *daemon) {
	s := spec()
	s.Egress.Host = b.internet
	m, err := d.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if got := output(t, m, "echo $GIVEN; pwd; echo written > file; cat file; grep -E '^(CapBnd|CapEff|NoNewPrivs)' /proc/self/status"); !strings.HasPrefix(got, "value\n/workspace\nwritten\n") {
		t.Errorf("output %q", got)
	}
	if left := b.left(t, d, s.ID); len(left) != 2 {
		t.Errorf("a live sandbox is found as %q", left)
	}
	if proof, err := m.Kill(t.Context()); err != nil || proof.Left != 0 {
		t.Errorf("kill: %+v, %v", proof, err)
	}
	if left := b.left(t, d, s.ID); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

// counts: the statistics have what the guest has killed for its memory, and no disk of the node.
func counts(t *testing.T, d *daemon) {
	m, err := d.Start(t.Context(), spec())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Kill(t.Context())
	before, err := m.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	output(t, m, "head -c 2000m /dev/zero | tail > /dev/null")
	s, err := m.Stats(t.Context())
	if err != nil || before.MemoryKills != 0 || s.MemoryKills != 1 || s.DiskUsedBytes != -1 || s.DiskTotalBytes != -1 {
		t.Errorf("before %+v, then %+v, %v", before, s, err)
	}
}

// restarts: the next daemon adopts what the first one left, and one without the record reclaims it.
func restarts(t *testing.T, b *bench) {
	first := b.start(t)
	s := spec()
	m, err := first.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	output(t, m, "echo before > file")
	if err := m.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	first.service.Close()
	second := b.start(t)
	a, err := second.Adopt(t.Context(), s.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got := output(t, a.Machine, "cat file; echo after >> file"); got != "before\n" {
		t.Errorf("the adopted sandbox has %q", got)
	}
	if err := a.Machine.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	second.service.Close()
	third := b.start(t)
	defer third.service.Close()
	if proof, err := third.Reclaim(t.Context(), s.ID); err != nil || proof.Left != 0 {
		t.Errorf("reclaimed %+v, %v", proof, err)
	}
	if left := b.left(t, third, s.ID); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
	if _, err := third.Adopt(t.Context(), s.ID); api.KindOf(err) != api.KindNotFound {
		t.Errorf("adopted after its end: %v", err)
	}
}

// moved: the next daemon has another address, which no guest of before finds: it cannot adopt, and says why.
func moved(t *testing.T, b *bench) {
	first := b.start(t)
	s := spec()
	m, err := first.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	first.service.Close()
	other := *b
	_, port, _ := net.SplitHostPort(b.cfg.Listen)
	other.cfg.Listen = "127.0.0.2:" + port
	other.cfg.GuestURL = "https://" + other.cfg.Listen
	second := other.start(t)
	defer second.service.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second) // longer than one wait for the guest
	defer cancel()
	want := "it connects to " + b.cfg.Listen + ", and the address of kubernetes.guest-url is " + other.cfg.Listen + " now"
	if _, err := second.Adopt(ctx, s.ID); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v; want %q", err, want)
	}
	if proof, err := second.Reclaim(t.Context(), s.ID); err != nil || proof.Left != 0 {
		t.Errorf("reclaimed %+v, %v", proof, err)
	}
}

// deleted: a pod that the cluster deletes is the end of its sandbox, with a cause.
func deleted(t *testing.T, d *daemon, remove func(string)) {
	s := spec()
	m, err := d.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	remove("hortus-" + string(s.ID))
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(m.(sandbox.Watched).Look())) // as a command whose stream has broken
	defer cancel()
	select {
	case <-m.Done():
		if why := m.Cause(); !strings.Contains(why, "kubernetes has ended the sandbox: its pod was deleted") {
			t.Errorf("cause %q", why)
		}
	case <-ctx.Done():
		t.Error("the end of the pod was not noticed")
	}
	if _, err := m.Kill(t.Context()); err != nil {
		t.Error(err)
	}
}

// lies: an API server that answers with another pod is refused, and nothing is left.
func lies(t *testing.T, double *double, d *daemon) {
	for name, c := range map[string]struct {
		lie  func(o map[string]any)
		want string
	}{
		"another name": {func(o map[string]any) {
			o["metadata"] = map[string]any{"name": "other", "uid": "u", "labels": at(o, "metadata", "labels")}
		}, `the created pod has the name "other"`},
		"it does not start": {func(o map[string]any) {
			o["status"] = map[string]any{"phase": "Pending", "containerStatuses": []any{map[string]any{"name": "sandbox", "state": map[string]any{"waiting": map[string]any{"reason": "ImagePullBackOff", "message": "no such image"}}}}}
		}, "no such image"},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec()
			double.mu.Lock()
			double.lie = func(o map[string]any) {
				if strings.HasSuffix(at(o, "metadata", "name").(string), string(s.ID)) {
					c.lie(o)
				}
			}
			double.mu.Unlock()
			m, err := d.Start(t.Context(), s)
			double.mu.Lock()
			double.lie = nil
			double.mu.Unlock()
			if err == nil {
				m.Kill(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
			if proof, err := d.Reclaim(t.Context(), s.ID); err != nil || proof.Left != 0 {
				t.Errorf("reclaim: %+v, %v", proof, err)
			}
			if got := double.count(); got != 0 {
				t.Errorf("%d pods are left", got)
			}
		})
	}
}

func (d *double) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.pods)
}

// openNetwork: a cluster that accepts a network policy and does not enforce it is refused. The control is every other
// test here.
func openNetwork(t *testing.T, double *double, d *daemon) {
	double.open = true
	defer func() { double.open = false }()
	m, err := d.Start(t.Context(), spec())
	if err == nil {
		m.Kill(t.Context())
	}
	if api.KindOf(err) != api.KindUnisolated || !strings.Contains(err.Error(), "does not enforce the network policy") {
		t.Errorf("started in an open network: %v", err)
	}
	if got := double.count(); got != 0 {
		t.Errorf("%d pods are left", got)
	}
}

// unlimited: a cluster that accepts limits and does not enforce them is refused. The control is every other test here, and a
// runtime with the overhead of its RuntimeClass.
func unlimited(t *testing.T, double *double, d *daemon) {
	overhead := func(o map[string]any) {
		o["spec"].(map[string]any)["overhead"] = map[string]any{"memory": "64Mi", "cpu": "0.25"}
	}
	defer func() { double.limits, double.lie = nil, nil }()
	for name, c := range map[string]struct {
		memory, cpu string // of a sandbox with 256 MiB and half a processor
		lie         func(map[string]any)
		refused     bool
	}{
		"the control":               {"335544320", "51000 100000", nil, false}, // systemd rounds up
		"with the overhead":         {"402653184", "76000 100000", overhead, false},
		"more than the overhead":    {"402653185", "76000 100000", overhead, true},
		"more without an overhead":  {"402653184", "50000 100000", nil, true},
		"no memory":                 {"max", "50000 100000", nil, true},
		"more memory":               {"335544321", "50000 100000", nil, true},
		"no processors":             {"335544320", "max 100000", nil, true},
		"more processors":           {"335544320", "52000 100000", nil, true},
		"nothing":                   {"", "", nil, true},
		"an overhead that is a lie": {"402653184", "50000 100000", func(o map[string]any) { o["spec"].(map[string]any)["overhead"] = map[string]any{"memory": "64MB"} }, true},
	} {
		double.mu.Lock()
		double.limits, double.lie = []string{c.memory, c.cpu}, c.lie
		double.mu.Unlock()
		m, err := d.Start(t.Context(), spec())
		if err == nil {
			m.Kill(t.Context())
		}
		if refused := api.KindOf(err) == api.KindUnisolated && strings.Contains(err.Error(), "does not enforce the limits"); refused != c.refused || !refused && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := double.count(); got != 0 {
			t.Errorf("%s: %d pods are left", name, got)
		}
	}
}
