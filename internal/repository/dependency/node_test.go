package dependency

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestManager: the version that a repository names is installed with npm, and its digest is compared. Nothing else that the
// field has is in the command.
func TestManager(t *testing.T) {
	sum := strings.Repeat("0123456789abcdef", 8)
	const begin = "mkdir -p /workspace/.git/hortus/node && cd /workspace/.git/hortus/node && "
	for _, c := range []struct{ lock, field, want string }{
		{"pnpm-lock.yaml", "pnpm@10.1.0", begin + "npm install --prefix . --ignore-scripts --no-audit --no-fund pnpm@10.1.0"},
		{"pnpm-lock.yaml", "pnpm@10.1.0+sha512." + sum, begin + `npm pack --prefix . --silent pnpm@10.1.0 && { [ "$(sha512sum < pnpm-10.1.0.tgz)" = "` + sum + `  -" ]`},
		{"yarn.lock", "yarn@1.22.22+sha256." + sum[:64], begin + `npm pack --prefix . --silent yarn@1.22.22 && { [ "$(sha256sum < yarn-1.22.22.tgz)" = "`},
		{"pnpm-lock.yaml", "", "command -v pnpm >/dev/null || { " + begin},
		{"pnpm-lock.yaml", "pnpm@^10", "command -v pnpm >/dev/null || { "},
		{"pnpm-lock.yaml", "pnpm@10.1.0+sha512.zz", "command -v pnpm >/dev/null || { "},
		{"pnpm-lock.yaml", "pnpm@10.1.0-$(id)", "command -v pnpm >/dev/null || { "},
		{"pnpm-lock.yaml", "pnpm@https://example.org/x.js", "command -v pnpm >/dev/null || { "},
		{"pnpm-lock.yaml", "npm@10.0.0", "command -v pnpm >/dev/null || { "},
	} {
		p := Detect(tree(map[string]string{c.lock: "", "package.json": `{"packageManager":"` + c.field + `"}`}))
		if !strings.HasPrefix(p.Steps[0].Run, c.want) || strings.Contains(p.Steps[0].Run, "$(id") || strings.Contains(p.Steps[0].Run, "example.org") {
			t.Errorf("%s: %s", c.field, p.Steps[0].Run)
		}
		for _, s := range p.Steps {
			if strings.Join(s.Needs, " ") != "npm" {
				t.Errorf("%s needs %v", s.Name, s.Needs)
			}
		}
		if got := p.In("lib"); got.Path[0] != "/workspace/.git/hortus/node/lib/node_modules/.bin" || !strings.Contains(got.Steps[0].Run, "cd /workspace/.git/hortus/node/lib &&") {
			t.Errorf("%v %s", got.Path, got.Steps[0].Run)
		}
	}
}

// TestDigest runs the comparison: another file ends the step.
func TestDigest(t *testing.T) {
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for sum, want := range map[string]bool{empty: true, strings.Repeat("0", 64): false} {
		d := &detector{}
		run := d.bring(manager{name: "yarn", version: "1.22.22", algorithm: "sha256", sum: sum}).Run
		dir := t.TempDir()
		run = strings.ReplaceAll(run, nodeTools, filepath.Join(dir, "node"))
		// npm makes an empty file here.
		out, err := exec.Command("sh", "-c", "npm() { case $1 in pack) : > yarn-1.22.22.tgz;; install) echo installed;; esac; }\n"+run).CombinedOutput()
		if (err == nil) != want || strings.Contains(string(out), "installed") != want || strings.Contains(string(out), "another digest") == want {
			t.Errorf("%s: %s %v", sum, out, err)
		}
	}
}

// TestYarnMirror runs what changes the addresses in a lock file of Yarn 1.
func TestYarnMirror(t *testing.T) {
	const lock = `a@1:
  resolved "https://registry.example.org/a/-/a-1.tgz#0a"
"@s/b@1":
  resolved "http://registry.example.org/@s/b/-/b-1.tgz#0b"
c@x:
  resolved "https://code.example.org/c/c/tar.gz/0c"
`
	for registry, want := range map[string]string{
		"":                                  lock,
		"http://mirror.example.org:99/npm/": strings.NewReplacer("https://registry.example.org", "http://mirror.example.org:99/npm", "http://registry.example.org", "http://mirror.example.org:99/npm").Replace(lock),
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "yarn.lock"), []byte(lock), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "-c", yarnMirror+"cat yarn.lock")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "YARN_REGISTRY="+registry)
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("%q: %v\n%s", registry, err, out)
		}
	}
}
