package console

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/forgeserver"
	"hortus.dev/test/gittest"
	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// shelf is what the script about repositories is told.
type shelf struct {
	scene
	// Forge and Bare are addresses of the same repository: at a forge that wants a token, and at a git server for everybody.
	Forge string `json:"forge"`
	Bare  string `json:"bare"`
	// Writes and Reads are tokens of the forge.
	Writes string `json:"writes"`
	Reads  string `json:"reads"`
	// EvilRepository is one of another account, whose every text is evil.
	EvilRepository string `json:"evilRepository"`
}

// TestRepositories connects repositories in a browser: one at a forge from its address to a first verified task, and one at a plain git
// server, with its first task.
func TestRepositories(t *testing.T) {
	tier.Soak(t) // a browser; internal/server/console and TestBrowser have the page, and test/daemon what it asks
	t.Parallel()
	modules := installed(t, ".", "hortus-console")
	if _, err := os.Stat(chromium); err != nil {
		t.Skipf("there is no browser: %v; apt-get install chromium", err)
	}
	w := world.Open(t, world.Config{})
	w.Isolates(t, "container")
	dir := gittest.RealPath(t, t.TempDir())
	bare := filepath.Join(dir, "garden", "shop.git")
	gittest.Git(t, dir, "clone", "-q", "--bare", shop(t), bare)
	s := shelf{
		scene:  scene{URL: w.URL, Admin: w.Key("default", api.RoleAdmin).Secret, User: w.Key("user", "").Secret, Evil: evil, Modules: modules, Chromium: chromium, Soak: tier.Soaking()},
		Writes: "token-that-writes", Reads: "token-that-reads",
	}
	forge := world.Must(forgeserver.New(forgeserver.Config{
		Kind: forgeserver.Gitea, Users: map[string]forgeserver.User{s.Writes: {Login: "ada", Write: true}, s.Reads: {Login: "bob"}},
		Repositories: []*forgeserver.Repository{{Path: "garden/shop", Dir: bare}},
	}))(t)
	server := httptest.NewServer(forge)
	t.Cleanup(server.Close)
	s.Forge, s.Bare = server.URL+"/garden/shop.git", open(t, dir)+"/garden/shop.git"
	id := api.NewRepositoryID()
	if err := w.DB.InsertRepository(t.Context(), api.Repository{
		ID: id, State: api.RepositoryFailed, Account: "other", Name: evil, URL: "https://example.org/" + evil, Branch: evil, Subject: evil, Commit: evil, Key: "k", Verify: evil, Secret: evil, Forge: evil,
		CreatedAt: time.Now(), Error: &api.Error{Kind: api.KindUnavailable, Message: evil, Hint: evil},
	}); err != nil {
		t.Fatal(err)
	}
	s.EvilRepository = string(id)
	told, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(5*time.Minute))
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "repositories.mjs")
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

// shop is the example repository with a setup of its own, and with a test file whose name is markup.
func shop(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(gittest.RealPath(t, t.TempDir()), "shop")
	if err := os.CopyFS(dir, os.DirFS("../../examples/tasks/python")); err != nil {
		t.Fatal(err)
	}
	gittest.WriteFiles(t, dir, map[string]string{
		".hortus/setup.yaml": "steps:\n  - run: echo setup-is-running\n",
		"noxfile.py":         "import nox\n",
		"tests/test_" + strings.ReplaceAll(evil, "/", "|") + ".py": "import unittest\n",
	})
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qm", evil}} {
		gittest.Git(t, dir, args...)
	}
	return dir
}

// open serves the bare repositories below a directory to everybody, for reading.
func open(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.Handler(&cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"), Dir: dir,
		Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "HOME=" + dir}, Stderr: io.Discard, // it reports what is not there
	}))
	t.Cleanup(server.Close)
	return server.URL
}
