package fleet

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"hortus.dev/test/archivetest"
	"hortus.dev/test/binary"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// TestMachines types the commands of docs/fleet.md on three clean machines, which are namespaces.
func TestMachines(t *testing.T) {
	tier.Soak(t)
	if os.Geteuid() != 0 {
		t.Skip("soak test: only root can make machines of namespaces")
	}
	for _, want := range []string{"git", "python3", "curl", "openssl", "busybox", "ip"} {
		if _, err := exec.LookPath(want); err != nil {
			t.Skipf("soak test: the machines need %s: %v", want, err)
		}
	}
	hortus := world.Must(binary.In(t.TempDir()))(t)
	cmd := exec.CommandContext(t.Context(), "bash", filepath.Join("testdata", "machines.sh"), hortus, archivetest.GatewayProgram(t))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it ends the machines
	typed, err := cmd.CombinedOutput()
	t.Logf("%s", typed)
	world.OK(t, err)
}
