package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/daemon/network"
	"hortus.dev/internal/egress/check"
	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
	"hortus.dev/test/tools"
	"hortus.dev/test/world"
)

// TestEgressAttacks runs every attack on the outgoing connections of both backends, with a
// resolver that lies. In T1 the attacks from a container are made with a weak policy only, which is the
// control: test/story TestEgressAttacks makes them with a strict one, also after an adoption.
func TestEgressAttacks(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"container", "gvisor"} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			attacks := attackers(t, isolation)
			if isolation == "gvisor" || tier.Soaking() {
				for _, r := range attacks(false) {
					if r.Result == check.Broken || r.Result == check.NotTested {
						t.Errorf("%s, %s: %s", r.ID, r.Phase, r.Reason)
					}
				}
			}
			if isolation == "container" {
				succeed(t, attacks(true))
			}
		})
	}
}

// succeed is the control of the suite: with a policy that allows what they try, attacks are found
// to succeed.
func succeed(t *testing.T, rows []check.Row) {
	t.Helper()
	for _, id := range []string{
		"dns/labels", "dns/tcp", "dns/other-server", "dns/dot", "dns/doh", "address/of-a-name", "address/spellings", "address/private",
		"address/private-range", "address/redirect", "web/fronting", "web/fronting-reuse", "web/path", "web/port", "web/upgrade",
		"tls/fronting", "tls/fronting-reuse", "tls/fronting-h2", "tls/server-name", "tls/no-server-name", "tls/passthrough", "proxy/other-host",
		"smuggling/length", "smuggling/coding",
	} {
		i := slices.IndexFunc(rows, func(r check.Row) bool { return r.ID == id })
		if i < 0 || rows[i].Result != check.Broken || strings.HasPrefix(rows[i].Reason, "not tested") {
			t.Errorf("with a weak policy %s is not found to succeed", id)
		}
	}
}

// attackers opens a daemon and returns what runs the attacks against it.
func attackers(t *testing.T, isolation string) func(weak bool) []check.Row {
	t.Helper()
	servers := world.Must(check.NewServers(true))(t)
	t.Cleanup(servers.Close)
	roots := filepath.Join(t.TempDir(), "roots.pem")
	world.OK(t, os.WriteFile(roots, servers.Roots(), 0o600))
	probe := world.Must(os.ReadFile(tools.Program(t, "./cmd/hortus-guest")))(t)
	w := world.Open(t, world.Config{GVisor: isolation == "gvisor", Config: daemon.Config{Egress: network.Config{Resolver: servers, CAFile: roots}}})
	w.Isolates(t, "")
	c := w.As(w.Key("default", api.RoleAdmin))
	return func(weak bool) []check.Row {
		report, err := check.Run(t.Context(), check.Config{
			Client: c, Servers: servers, Isolation: isolation, Probe: probe, Timeout: patience.Of(20 * time.Second), Weak: weak,
		})
		if api.KindOf(err) == api.KindUnsupported || api.KindOf(err) == api.KindUnisolated {
			t.Skipf("this host cannot capture connections with %s: %v", isolation, err)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range report.Rows {
			t.Logf("%s %s: %s %dms %s", r.Phase, r.ID, r.Result, r.TookMS, r.Reason)
		}
		return report.Rows
	}
}
