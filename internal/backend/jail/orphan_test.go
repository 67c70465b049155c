package jail

import (
	"path/filepath"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/internal/storage/layer"
)

// TestProbeIsNoOrphan: what a probe tries is not listed as left over, so that a collection at
// the same time does not destroy it. The control is a group that nobody knows.
func TestProbeIsNoOrphan(t *testing.T) {
	dir := t.TempDir()
	layers, err := layer.Open(filepath.Join(dir, "layers"))
	if err != nil {
		t.Fatal(err)
	}
	for turn := 0; ; turn++ {
		b, err := New(Config{Name: "container", Dir: filepath.Join(dir, "run"), Layers: layers})
		if err != nil {
			t.Fatal(err)
		}
		left := api.NewSandboxID()
		group, err := b.cgroups.Create(string(left), cgroup.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if !group.Exists() {
			t.Skip("this host has no control groups for its user")
		}
		probed := make(chan api.BackendReport)
		go func() { probed <- b.Probe(t.Context()) }()
		seen := false
		for running := true; running; {
			select {
			case report := <-probed:
				running = false
				if a, ok := report.Has(api.CapStart); !ok {
					t.Skipf("this host cannot run containers: %s", a.Reason)
				}
			default:
			}
			seen = seen || len(b.cgroups.List()) > 1
			ids, err := b.Orphans(t.Context())
			if err != nil || len(ids) != 1 || ids[0] != left {
				t.Errorf("left over while a probe runs: %v, %v; want only %s", ids, err, left)
			}
		}
		if err := group.Remove(time.Second); err != nil {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if seen || t.Failed() {
			return
		}
		if turn == 20 {
			t.Fatal("no probe was seen to have a control group")
		}
	}
}
