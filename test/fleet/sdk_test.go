package fleet

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
)

// TestE2BSDK runs each feature of test/e2b with E2B's SDK of npm, which is not changed, against each of three nodes. A sandbox that it makes is on
// any of them.
func TestE2BSDK(t *testing.T) {
	tier.Soak(t)
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	modules := os.Getenv("HORTUS_E2B")
	if cache, err := os.UserCacheDir(); modules == "" && err == nil {
		modules = filepath.Join(cache, "hortus-e2b")
	}
	const sdk = "e2b-2.51"
	if _, err := os.Stat(filepath.Join(modules, "node_modules", sdk)); err != nil {
		t.Skipf("the SDK is not installed: %v; test/e2b says how", err)
	}
	all := open(t, 3)
	k := all[0].Key("team", api.RoleAdmin)
	at := map[string]int{} // sandboxes by node
	for i, w := range all {
		ctx, cancel := context.WithTimeout(t.Context(), patience.Of(8*time.Minute))
		defer cancel()
		cmd := exec.CommandContext(ctx, node, "run.mjs", sdk)
		cmd.Dir = "../e2b"
		cmd.Env = append(os.Environ(), "HORTUS_E2B="+modules, "HORTUS_E2B_ISOLATION=container",
			"E2B_API_KEY="+k.Secret, "E2B_API_URL="+w.URL, "E2B_SANDBOX_URL="+w.URL, "E2B_VOLUME_API_URL="+w.URL)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("node %d: %v\n%s", i, err, stderr.Bytes())
		}
		results := map[string]int{}
		for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
			var l struct{ File, Feature, Result, Detail string }
			if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
				t.Errorf("node %d said %q", i, lines.Bytes())
			}
			if results[l.Result]++; l.Result == "failed" {
				t.Errorf("node %d: %s: %s\n%s", i, l.File, l.Feature, l.Detail)
			}
		}
		t.Logf("node %d: %v", i, results)
		files, err := filepath.Glob("../e2b/features/*.mjs")
		if n := results["yes"] + results["refused"] + results["failed"]; err != nil || n != len(files) || results["yes"] == 0 {
			t.Errorf("node %d ran %d of %d features: %v", i, n, len(files), err)
		}
	}
	for _, s := range func() []api.Sandbox { l, _ := all[0].DB.ListSandboxes(t.Context(), true); return l }() {
		if n, err := all[0].DB.NodeOfOwner(t.Context(), s.Owner); err == nil {
			at[n.Name]++
		}
	}
	if t.Logf("sandboxes by node: %v", at); len(at) != len(all) {
		t.Errorf("sandboxes were on %d nodes: %v", len(at), at)
	}
}
