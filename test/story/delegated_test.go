package story

import (
	"os"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

// TestDelegatedGroup is of an ordinary user whom systemd gave a group: doctor says
// that the limits hold, and they do.
func TestDelegatedGroup(t *testing.T) {
	if os.Getenv("HORTUS_TEST_MACHINE") != "own" || os.Geteuid() == 0 {
		t.Skip("it is of an ordinary user in a delegated group; make test-vm runs it in one")
	}
	g := newEmptyGarden(t)
	d := decode[admin.Doctor](t, g.must("doctor", "--json"))
	for _, b := range d.Backends {
		if b.Backend != "container" {
			continue
		}
		for _, c := range []api.Capability{api.CapLimitMemory, api.CapLimitProcs, api.CapLimitCPU, api.CapPause} {
			if a, ok := b.Has(c); !ok || a.Reason != "cgroup v2" {
				t.Errorf("doctor says of %s: %+v", c, a)
			}
		}
	}
	r := g.run("sandbox", "run", "--isolation", "container", "--cpus", "1", "--memory", "96M", "--", "python3", "-c", "x = b'1' * (400 << 20); print('kept')")
	if r.code != 137 || strings.Contains(r.stdout, "kept") {
		t.Errorf("400 MB under a limit of 96 MB: %s", r)
	}
	// The next command finds the same place, from a process that was moved.
	g.must("sandbox", "run", "--isolation", "container", "--cpus", "1", "--", "true")
}
