package proc

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestNoCoreDumps looks at a process that has forbidden them, and at one that has not.
func TestNoCoreDumps(t *testing.T) {
	const variable = "HORTUS_TEST_CORE"
	if how := os.Getenv(variable); how != "" {
		if how == "forbid" {
			if err := NoCoreDumps(); err != nil {
				t.Fatal(err)
			}
		}
		b, err := os.ReadFile("/proc/self/limits")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) > 5 && strings.HasPrefix(line, "Max core file size") {
				t.Logf("core=%s,%s", f[4], f[5])
			}
		}
		return
	}
	for how, want := range map[string]bool{"forbid": true, "allow": false} {
		// A shell that raises the limit as far as it may: what was inherited does not count.
		cmd := exec.Command("sh", "-c", `ulimit -c unlimited 2>/dev/null || ulimit -S -c "$(ulimit -H -c)"; exec "$0" -test.run '^TestNoCoreDumps$' -test.v`, os.Args[0])
		cmd.Env = append(os.Environ(), variable+"="+how)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if !strings.Contains(string(out), "core=") {
			t.Fatalf("it did not say: %s", out)
		}
		if how == "allow" && strings.Contains(string(out), "core=0,0") {
			t.Skip("core dumps are forbidden on this machine, so there is no control")
		}
		none := strings.Contains(string(out), "core=1,1") // with 0 the kernel would run a handler
		if none != want {
			t.Errorf("%s: no core dumps: %v, want %v", how, none, want)
		}
	}
}
