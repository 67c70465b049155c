package console

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"hortus.dev/test/patience"
)

// runScript has a script use a browser, and fails the test unless it reaches its end.
func runScript(t *testing.T, script string, scene any) {
	t.Helper()
	told, err := json.Marshal(scene)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(5*time.Minute))
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", script)
	cmd.Stdin = strings.NewReader(string(told))
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	// The control for the steps: the script has really reached its end.
	if !strings.HasSuffix(string(out), "all steps passed\n") {
		t.Error("the script ended early")
	}
}

// needsBrowser skips without a browser, and returns the directory with the packages of the scripts.
func needsBrowser(t *testing.T) string {
	t.Helper()
	modules := installed(t, ".", "hortus-console")
	if _, err := os.Stat(chromium); err != nil {
		t.Skipf("there is no browser: %v; apt-get install chromium", err)
	}
	return modules
}
