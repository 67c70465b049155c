package githttp

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api/secrets"
)

// isomorphicVariable is the environment variable that names a directory in which "npm ci" was run
// with testdata/isomorphic.
const isomorphicVariable = "HORTUS_ISOMORPHIC_GIT"

// isomorphic returns that directory, or the one that .ci/run makes. It skips the test if there is
// none.
func isomorphic(t *testing.T) string {
	t.Helper()
	lock, err := os.ReadFile("testdata/isomorphic/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	dir := os.Getenv(isomorphicVariable)
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Skipf("isomorphic-git is not installed: %v", err)
		}
		dir = filepath.Join(cache, "hortus-isomorphic-git")
	}
	there, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err == nil && bytes.Equal(lock, there) {
		if _, err = os.Stat(filepath.Join(dir, "node_modules/isomorphic-git")); err == nil {
			return dir
		}
	}
	if os.Getenv(isomorphicVariable) != "" {
		t.Fatalf("%s=%s has not what testdata/isomorphic has: %v", isomorphicVariable, dir, err)
	}
	t.Skipf("isomorphic-git is not installed: %v; mkdir -p %s && cp testdata/isomorphic/package*.json %s && npm ci --ignore-scripts --prefix %s", err, dir, dir, dir)
	return ""
}

// TestIsomorphicGit runs a client that is not git: its packs and requests are made differently.
func TestIsomorphicGit(t *testing.T) {
	s := newStage(t, "sha1", sandboxRule())
	modules := isomorphic(t)
	run := func() map[string]string {
		t.Helper()
		cmd := exec.Command("node", "testdata/isomorphic/client.mjs", modules, s.url(), filepath.Join(t.TempDir(), "c"))
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		steps := map[string]string{}
		for line := range strings.Lines(string(out)) {
			var step struct {
				Name, Value string
				OK          bool
			}
			if err := json.Unmarshal([]byte(line), &step); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if !step.OK {
				step.Value = "refused: " + step.Value
			}
			steps[step.Name] = step.Value
		}
		return steps
	}
	got := run()
	for _, step := range []string{"clone", "fetch", "commit", "push", "create", "amend"} {
		if strings.HasPrefix(got[step], "refused: ") || got[step] == "" {
			t.Errorf("%s: %s", step, got[step])
		}
	}
	for _, step := range []string{"other", "delete", "force"} {
		if !strings.HasPrefix(got[step], "refused: ") || !strings.Contains(got[step], "not allowed") {
			t.Errorf("%s: %s", step, got[step])
		}
	}
	if s.ref("refs/heads/hortus/old") != got["commit"] || s.ref("refs/heads/hortus/js") != got["commit"] || s.ref("refs/heads/other") != "" {
		t.Errorf("the refs are\n%s", s.refs())
	}
	var reasons []string
	for _, r := range s.refusals() {
		reasons = append(reasons, r.Reason)
	}
	want := []string{`git: the ref "refs/heads/other" may not be pushed`, `git: the ref "refs/heads/hortus/js" may not be deleted`,
		`git: the update of "refs/heads/hortus/old" is not fast-forward, as far as the push shows it`}
	if strings.Join(reasons, "\n") != strings.Join(want, "\n") {
		t.Errorf("refused: %q, want %q", reasons, want)
	}
	s.allow(func(r *secrets.Git) { r.Push, r.Force, r.Delete = []string{"refs/heads/**"}, true, true })
	got = run()
	for step, value := range got {
		if strings.HasPrefix(value, "refused: ") {
			t.Errorf("control: %s: %s", step, value)
		}
	}
	if s.ref("refs/heads/hortus/old") != got["amend"] || s.ref("refs/heads/other") != got["commit"] || s.ref("refs/heads/hortus/js") != "" {
		t.Errorf("control: the refs are\n%s", s.refs())
	}
}
