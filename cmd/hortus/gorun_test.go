//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
	testtools "hortus.dev/test/tools"
)

func onPath(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

// TestGoRun runs README's first command in an empty home. Its sandbox is a container, and
// after its answer gVisor is built in the background; later sandboxes use it. In T1, .ci/run runs the command, and
// internal/platform/gvisorbuild TestBuild builds gVisor.
func TestGoRun(t *testing.T) {
	tier.Soak(t)
	testtools.Dir(t) // skip unless this machine can build gVisor
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(t.TempDir(), "data")
	env := append(os.Environ(), "HORTUS_DATA_DIR="+data, "HORTUS_CONFIG=", "HORTUS_ISOLATION=", "HORTUS_RUNSC=", "HORTUS_TOOLS=",
		"HORTUS_IDLE=1s", "HORTUS_POOL=0")
	hortus := func(args ...string) (string, string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", append([]string{"run", "./cmd/hortus"}, args...)...)
		cmd.Dir, cmd.Env = root, env
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, &stderr)
		}
		return stdout.String(), stderr.String()
	}
	t.Cleanup(func() {
		cmd := exec.Command("go", "run", "./cmd/hortus", "daemon", "stop", "--force")
		cmd.Dir, cmd.Env = root, env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("daemon stop: %v: %s", err, out)
		}
	})
	const building = "building gVisor in the background"
	request := []string{"run", "print the first 3 prime numbers"}
	env = append(env, "HORTUS_GVISOR_BUILD=never")
	if out, said := hortus(request...); out != "2, 3, 5\n" || !strings.Contains(said, "isolation container") || strings.Contains(said, building) ||
		strings.Contains(said, "go install") == onPath("hortus") {
		t.Errorf("with HORTUS_GVISOR_BUILD=never: %s%s", out, said)
	}
	env = append(env, "HORTUS_GVISOR_BUILD=auto")
	if out, said := hortus(request...); out != "2, 3, 5\n" || !strings.Contains(said, building) {
		t.Errorf("the first command: %s%s", out, said)
	}
	state := ""
	for end := time.Now().Add(patience.Of(time.Minute)); !strings.HasPrefix(state, "built"); time.Sleep(100 * time.Millisecond) {
		if state, _ = hortus("gvisor", "status"); time.Now().After(end) {
			t.Fatalf("gVisor is not built: %s", state)
		}
	}
	hortus("daemon", "stop")
	out, said := hortus(append(request, "--isolation", "gvisor")...)
	if out != "2, 3, 5\n" || !strings.Contains(said, "isolation gvisor") || strings.Contains(said, building) {
		t.Errorf("when it is built: %s%s", out, said)
	}
}
