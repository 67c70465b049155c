package story

import (
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// TestSetup prepares a repository with npm and pip: the first time its packages are installed, then they are there
// until a lock file changes, also in the gate, which connects to nothing.
func TestSetup(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	r := newRegistries(t)
	g := newGarden(t)
	r.configure(g)
	g.light()
	g.opens("container", "npm")
	g.opens("container", "pip3")
	tarball := npmTarball(t)
	// The registry serves one archive; each call makes another one.
	r.npm(t, tarball)
	sum := sha512.Sum512(tarball)
	lock := fmt.Sprintf(`{"name":"app","version":"1.0.0","lockfileVersion":3,"requires":true,"packages":{"":{"name":"app","version":"1.0.0","dependencies":{"hortus-pad":"1.0.0"}},`+
		`"node_modules/hortus-pad":{"version":"1.0.0","resolved":"%s/npm/lock/hortus-pad-1.0.0.tgz","integrity":"sha512-%s","hasInstallScript":true}}}`, r.url, base64.StdEncoding.EncodeToString(sum[:]))
	dir := makeRepo(t, g, map[string]string{
		"package.json": `{"name":"app","version":"1.0.0","dependencies":{"hortus-pad":"1.0.0"}}`, "package-lock.json": lock,
		"requirements.txt": "hortus-pad==1.0\n", ".gitignore": "node_modules\n",
		"check.sh": "node -e 'console.log(require(\"hortus-pad\").pad(7, 3))' && python3 -c 'import hortus_pad; print(hortus_pad.pad(7, 3))' && ! curl -s -m 5 " + r.url + "/simple/ >/dev/null\n",
	})
	commit := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		gitIn(t, dir, "add", "-A")
		gitIn(t, dir, "commit", "-q", "-m", "more")
	}
	prepare := func(want ...string) {
		t.Helper()
		run := g.patient("repo", "prepare", dir)
		for _, w := range want {
			if run.code != 0 || !strings.Contains(run.stderr, w) {
				t.Fatalf("%q is missing: %s", w, run)
			}
		}
	}
	prepare("[setup] npm ci", "[setup] pip install", "[setup] sealed")
	prepare("[setup] reused: npm ci, pip install")
	commit("other.js", "1\n")
	prepare("[setup] reused: npm ci, pip install")

	run := g.patient("task", "--repo", dir, "--author", "Ada <ada@example.org>", "--rounds", "0", "--verify", "sh check.sh", "Fix the failing test")
	if !strings.Contains(run.stderr, "[setup] reused") || !strings.Contains(run.stderr, "[gate] before any change: passed") {
		t.Errorf("the gate does not have the packages: %s", run)
	}
	// The control: without the setup it fails.
	run = g.patient("task", "--no-setup", "--repo", dir, "--author", "Ada <ada@example.org>", "--rounds", "0", "--steps", "1", "--verify", "sh check.sh", "Fix the failing test")
	if strings.Contains(run.stderr, "[setup]") || !strings.Contains(run.stderr, "[gate] before any change: failed") {
		t.Errorf("the gate has the packages without a setup: %s", run)
	}

	commit("requirements.txt", "hortus-pad==1.0 # newer\n")
	prepare("[setup] npm ci", "[setup] sealed")

	// A recipe cannot open more than the task: the registries of npm and pip are in the first control.
	commit(".hortus/setup.yaml", "egress: [git, models]\nsteps:\n  - name: leak\n    run: \"! curl -s -m 5 "+r.url+"/simple/hortus-pad/\"\n")
	prepare("may not connect to git", "may not connect to models", "[setup] leak")
	commit(".hortus/setup.yaml", "egress: [pip]\nsteps:\n  - name: control\n    run: curl -sf -m 20 "+r.url+"/simple/hortus-pad/\n")
	prepare("[setup] control")
	commit(".hortus/setup.yaml", "egress: [pip]\nsteps:\n  - name: broken\n    run: echo nothing works; exit 3\n")
	if run := g.patient("repo", "prepare", dir); run.code == 0 || !strings.Contains(run.stderr, "nothing works") {
		t.Errorf("a broken recipe: %s", run)
	}
}

// TestSetupWithoutLockFiles: a project of npm and one of Python whose manifests name ranges are installed with what their tests
// need, also the commands, and the project itself is imported from its sources.
func TestSetupWithoutLockFiles(t *testing.T) {
	tier.Soak(t) // npm and pip; TestSetup has them with lock files
	tier.AnyUser(t)
	t.Parallel()
	r := newRegistries(t)
	g := newGarden(t)
	r.configure(g)
	g.light()
	g.opens("container", "npm")
	g.opens("container", "pip3")
	dir := makeRepo(t, g, map[string]string{
		"package.json":   `{"name":"app","version":"1.0.0","devDependencies":{"hortus-pad":"^1.0.0"}}`,
		"pyproject.toml": "[project]\nname = 'hortus-app'\nversion = '1'\n\n[dependency-groups]\ntest = ['hortus-pad>=1', 'hortus-app']\n",
		".gitignore":     "node_modules\n", "src/hortus_app/__init__.py": "from hortus_pad import pad\n",
		// A file of the repository must not be treated as one of pip's or Python's.
		"pip.py":               "raise SystemExit('the pip of the repository')\n",
		"src/sitecustomize.py": "import os\nif 'PIP_NO_INPUT' in os.environ: open('/workspace/seen', 'w')\n",
		"check.sh": "node -e 'console.log(require(\"hortus-pad\").pad(7, 3))' && cd / && python3 -c 'import hortus_app; print(hortus_app.pad(7, 3))' && ! test -e /workspace/package-lock.json && ! test -e /workspace/seen && " +
			"case :$PATH in *:/workspace/.git/hortus/python/bin:/*) ;; *) exit 4 ;; esac\n",
	})
	run := g.patient("repo", "prepare", dir)
	for _, want := range []string{"[setup] npm install", "[setup] pip install", "package.json has no lock file: npm installs the newest", "pyproject.toml has no lock file: pip installs the newest", "[setup] sealed"} {
		if run.code != 0 || !strings.Contains(run.stderr, want) {
			t.Fatalf("%q is missing: %s", want, run)
		}
	}
	run = g.patient("task", "--repo", dir, "--author", "Ada <ada@example.org>", "--rounds", "0", "--verify", "sh check.sh", "Fix the failing test")
	if !strings.Contains(run.stderr, "[setup] reused: npm install, pip install") || !strings.Contains(run.stderr, "[gate] before any change: passed") {
		t.Errorf("the gate does not have the packages: %s", run)
	}
}

// TestSetupThatFails: a preparation whose step fails is no success, whether the setup was found or described. A task
// with the same commit continues.
func TestSetupThatFails(t *testing.T) {
	tier.Soak(t) // npm, many times; TestSetup has a recipe that fails
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	g.opens("container", "npm")
	good := `{"name":"app","version":"1.0.0","lockfileVersion":3,"requires":true,"packages":{"":{"name":"app","version":"1.0.0"}}}`
	dir := makeRepo(t, g, map[string]string{"package.json": `{"name":"app","version":"1.0.0"}`, "package-lock.json": good})
	if run := g.patient("repo", "prepare", "--setup-egress", "none", dir); run.code != 0 || !strings.Contains(run.stdout, "prepared ") {
		t.Fatalf("the control: %s", run)
	}
	if err := os.WriteFile(filepath.Join(dir, "package-lock.json"), []byte("not JSON"), 0o644); err != nil {
		t.Fatal(err)
	}
	gitIn(t, dir, "commit", "-qam", "a lock file that cannot be read")
	run := g.patient("repo", "prepare", "--setup-egress", "none", dir)
	if run.code == 0 || strings.Contains(run.stdout, "prepared ") || !strings.Contains(run.stderr, "step npm ci: exit 1") || !strings.Contains(run.stderr, "--gate setup-02") {
		t.Errorf("a step failed: %s", run)
	}
	if run := g.run("task", "logs", "last", "--gate", "setup-02"); run.code != 0 || !strings.Contains(run.stdout, "npm") {
		t.Errorf("the output of the step: %s", run)
	}
	if run := g.run("task", "logs", "last", "--gate", "setup-00"); run.code != 2 {
		t.Errorf("the output of no step: %s", run)
	}
	run = g.patient("--json", "repo", "prepare", "--setup-egress", "none", dir)
	task := decode[api.Task](t, run.stdout)
	if run.code == 0 || task.Outcome != api.OutcomeFailed || task.Error == nil || !strings.Contains(task.Error.Message, "step npm ci: exit 1") || !strings.Contains(task.Error.Hint, string(task.ID)) {
		t.Errorf("a step failed: %s", run)
	}
	if raw, err := os.ReadFile(filepath.Join(g.dir, "tasks", string(task.ID), "setup-02.out")); err != nil || !strings.Contains(string(raw), "npm") {
		t.Errorf("its output: %q, %v", raw, err)
	}
	// What the daemon prepares itself has the same error.
	g.must("repo", "add", dir, "--name", "shop")
	g.must("repo", "sync", "shop", "--prepare")
	until(t, "the preparation has failed", func() string {
		p := decode[api.Repository](t, g.must("repo", "show", "shop", "--json")).Preparation
		if p == nil || p.EndedAt.IsZero() {
			return fmt.Sprintf("%+v", p)
		}
		if p.Failures != 1 || p.Error == nil || !strings.Contains(p.Error.Message, "step npm ci: exit 1") || !strings.Contains(p.Error.Hint, string(p.Task)) || p.Commit != "" {
			t.Errorf("it ended with %+v", p)
		}
		return ""
	})
	run = g.patient("task", "--repo", dir, "--author", "Ada <ada@example.org>", "--rounds", "0", "--setup-egress", "none", "--verify", "true", "Change nothing")
	if !strings.Contains(run.stderr, "the task continues without installed dependencies") || !strings.Contains(run.stderr, "[gate] before any change: passed") {
		t.Errorf("a task does not continue: %s", run)
	}
}

// TestSetupOfGo measures the gate of the Go example with and without what a setup compiled, after a change of source.
func TestSetupOfGo(t *testing.T) {
	tier.AnyUser(t)
	tier.Soak(t) // a compiler without a cache takes a minute
	g := newGarden(t)
	g.env = append(g.env, "HORTUS_ISOLATION=container", "HORTUS_POOL=0")
	g.opens("container", "go")
	files := map[string]string{}
	top := filepath.Join("..", "..", "examples", "tasks", "go")
	for _, pattern := range []string{"*", "*/*"} {
		paths, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			if b, err := os.ReadFile(p); err == nil { // not a directory
				files[strings.TrimPrefix(p, top+"/")] = string(b)
			}
		}
	}
	dir := makeRepo(t, g, files)
	if run := g.patient("repo", "prepare", dir); run.code != 0 || !strings.Contains(run.stderr, "[setup] sealed") {
		t.Fatal(run)
	}
	if err := os.WriteFile(filepath.Join(dir, "lru", "more.go"), []byte("package lru\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	gitIn(t, dir, "add", "-A")
	gitIn(t, dir, "commit", "-q", "-m", "more")
	gate := func(flags ...string) int64 {
		run := g.patient(append([]string{"task", "--json", "--repo", dir, "--author", "Ada <ada@example.org>", "--rounds", "0", "--steps", "1", "--verify", "go test ./...", "Fix the failing test"}, flags...)...)
		task := decode[api.Task](t, run.stdout)
		if task.Repo == nil || task.Repo.Before == nil || task.Repo.Before.Tests == nil {
			t.Fatalf("no gate: %s", run)
		}
		return task.Repo.Before.MS
	}
	cold, warm := gate("--no-setup"), gate()
	t.Logf("gate without a setup %d ms, with one %d ms: ratio %.3f, at most 0.333", cold, warm, float64(warm)/float64(cold))
	if 3*warm > cold {
		t.Error("the second gate takes more than a third of the first")
	}
}
