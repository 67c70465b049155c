package e2b

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"hortus.dev/test/tier"
)

// pythonVariable is the environment variable with the directories of E2B's SDK for Python and of what it needs, as PYTHONPATH has them.
const pythonVariable = "HORTUS_TEST_E2B_PYTHON"

// TestPython uses E2B's SDK for Python, unmodified: with one server, and with each of three nodes that share a database.
func TestPython(t *testing.T) {
	tier.Soak(t)
	path := os.Getenv(pythonVariable)
	if path == "" {
		t.Skipf("no SDK of E2B for Python: set %s to its directory and those of what it needs, separated by colons", pythonVariable)
	}
	use := func(t *testing.T, s server) {
		ctx, cancel := context.WithTimeout(t.Context(), longest())
		defer cancel()
		cmd := exec.CommandContext(ctx, "/usr/bin/python3", "sdk.py")
		cmd.Env = append(os.Environ(), "PYTHONPATH="+path, "PYTHONDONTWRITEBYTECODE=1", "E2B_API_KEY="+s.key, "E2B_API_URL="+s.url, "E2B_SANDBOX_URL="+s.url, "E2B_VOLUME_API_URL="+s.url)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
			return
		}
		t.Logf("passed: %s", strings.Join(strings.Fields(string(out)), ", "))
	}
	t.Run("one", func(t *testing.T) { use(t, serve(t, "gvisor")) })
	t.Run("fleet", func(t *testing.T) {
		for i, s := range serveFleet(t, "gvisor") {
			t.Logf("node %d", i+1)
			use(t, s)
		}
	})
}
