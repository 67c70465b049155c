package console

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
)

const (
	web      = "../../web"
	embedded = "../../internal/server/console/dist"
)

// installed finds the packages of a lock file in a folder of the user's cache, or skips the test with the reason.
func installed(t *testing.T, from, name string) (modules string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("no cache to look for packages in: %v", err)
	}
	dir := filepath.Join(cache, name)
	lock, err := os.ReadFile(filepath.Join(from, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if modules = filepath.Join(dir, "node_modules"); err == nil {
		_, err = os.Stat(modules)
	}
	if err != nil || !bytes.Equal(lock, have) {
		t.Skipf("the packages of %s/package-lock.json are not installed in %s (%v): mkdir -p %s && cp %s/package*.json %s && npm ci --ignore-scripts --prefix %s", from, dir, err, dir, from, dir, dir)
	}
	return modules
}

// TestBuild builds the console in another folder, and wants the bytes that are embedded. In the soak tier it checks the types too,
// which takes longer than the build.
func TestBuild(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	modules := installed(t, web, "hortus-web")
	root := t.TempDir()
	for _, dir := range []string{"web/src", "sdk/typescript/src"} {
		if err := os.CopyFS(filepath.Join(root, dir), os.DirFS(filepath.Join("../..", dir))); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"web/package.json", "web/tsconfig.json", "web/vite.config.ts", "web/index.html", "sdk/typescript/types.d.ts", "sdk/typescript/package.json"} {
		b, err := os.ReadFile(filepath.Join("../..", file))
		if err == nil {
			err = os.WriteFile(filepath.Join(root, file), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(modules, filepath.Join(root, "web/node_modules")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(5*time.Minute))
	defer cancel()
	steps := [][]string{{"node_modules/vite/bin/vite.js", "build", "--logLevel", "error"}}
	if tier.Soaking() {
		steps = append(steps, []string{"node_modules/svelte-check/bin/svelte-check", "--tsconfig", "./tsconfig.json", "--fail-on-warnings", "--output", "human"})
	}
	for _, args := range steps {
		cmd := exec.CommandContext(ctx, "node", args...)
		cmd.Dir = filepath.Join(root, "web")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	built, have := contents(t, filepath.Join(root, "internal/server/console/dist")), contents(t, embedded)
	for name, b := range built {
		if !bytes.Equal(b, have[name]) {
			t.Errorf("%s is not what the source builds to: cd web && npm ci && npm run build", name)
		}
	}
	if len(have) != len(built) || len(have) < 10 {
		t.Errorf("%d files are embedded, the source builds to %d", len(have), len(built))
	}
}

func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			all[name], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
