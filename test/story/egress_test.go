package story

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/egress/check"
	"hortus.dev/test/tier"
	"hortus.dev/test/tools"
)

// TestEgressAttacks runs the attacks of hortus doctor --egress, and again after a daemon was
// killed and the next one has adopted the sandboxes.
func TestEgressAttacks(t *testing.T) {
	t.Parallel()
	probe, err := os.ReadFile(filepath.Join(tools.Dir(t), tools.Guest))
	if err != nil {
		t.Fatal(err)
	}
	isolations := []string{"container", "gvisor"}
	if os.Geteuid() == 0 && !tier.Soaking() {
		// gvisor is slow. An ordinary user tries it here, and root in test/daemon without an adoption.
		isolations = isolations[:1]
	}
	for _, isolation := range isolations {
		t.Run(isolation, func(t *testing.T) {
			g := newGarden(t)
			g.env = append(g.env, "HORTUS_POOL=0")
			g.must("sandbox", "ls") // starts the daemon
			servers, err := check.NewServers(false)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(servers.Close)
			c := g.client()
			t.Cleanup(c.Close)
			report, err := check.Run(t.Context(), check.Config{
				Client: c, Servers: servers, Isolation: isolation, Probe: probe, Timeout: patience,
				Restart: func(context.Context) error {
					if err := syscall.Kill(daemonOf(g.dir), syscall.SIGKILL); err != nil {
						return err
					}
					g.must("sandbox", "ls") // the next command's daemon
					return nil
				},
			})
			if kind := api.KindOf(err); kind == api.KindUnsupported || kind == api.KindUnisolated {
				t.Skipf("this host cannot capture connections with %s: %v", isolation, err)
			}
			if err != nil {
				t.Fatal(err)
			}
			adopted := 0
			for _, r := range report.Rows {
				if r.Result == check.Broken || r.Result == check.NotTested {
					t.Errorf("%s, %s: %s", r.ID, r.Phase, r.Reason)
				}
				if r.Phase == check.Adopted && r.Result == check.Held {
					adopted++
				}
			}
			if adopted == 0 {
				t.Error("no attack was tried after an adoption")
			}
		})
	}
}
