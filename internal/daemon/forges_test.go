package daemon

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/platform/config"
	"hortus.dev/test/forgeserver"
)

// TestForgesReachTheDaemon: what the file says of hosts, keys and policy is the
// daemon's.
func TestForgesReachTheDaemon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.toml")
	text := "data-dir='/f'\n[forge.'h']\nkind='gitea'\ntoken-secret='forge-token'\n[model]\nopenai-key-secret='openai-key'\n[policy]\nmax-files=3\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	none := ""
	got, err := loadSettings(path, map[string]*string{"data-dir": &none, "idle": &none, "pool": &none, "log-level": &none})
	if err != nil || len(got.Forges) != 1 || got.Forges[0] != (config.Forge{Host: "h", Kind: "gitea", TokenSecret: "forge-token"}) || len(got.KeySecrets) != 1 || got.KeySecrets["openai"] != "openai-key" || got.Policy.MaxFiles != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestSecretsOfTheDaemon: the daemon uses the secrets that the configuration names, as they are
// now, and grants those without bindings to no sandbox.
func TestSecretsOfTheDaemon(t *testing.T) {
	const token = "canary-token-1"
	dir := t.TempDir()
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "r")
	git("-C", "r", "commit", "-q", "--allow-empty", "-m", "first")
	git("clone", "-q", "--bare", "r", "o/r.git")
	backend := filepath.Join(git("--exec-path"), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skip("git-http-backend is not installed")
	}
	forge, err := forgeserver.New(forgeserver.Config{
		Kind: forgeserver.Gitea, Users: map[string]forgeserver.User{token: {Login: "ada", Write: true}},
		Repositories: []*forgeserver.Repository{{Path: "o/r", Dir: filepath.Join(dir, "o/r.git")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(forge)
	t.Cleanup(srv.Close)
	w := newTownOf(t, Config{
		KeySecrets: map[string]string{"openai": "openai-key"}, Path: os.Getenv("PATH"),
		Forges: []config.Forge{{Host: strings.TrimPrefix(srv.URL, "http://"), Kind: "gitea", TokenSecret: "forge-token"}},
	})
	ctx := api.WithPrincipal(t.Context(), api.Operator())
	set := func(name, value string) {
		t.Helper()
		if _, err := w.s.secrets.Set(ctx, "", name, secrets.Set{Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	add := func() error {
		_, err := w.s.connected.Add(ctx, api.AddRepository{URL: srv.URL + "/o/r.git"}, nil)
		if err != nil && strings.Contains(err.Error()+api.HintOf(err), "canary") {
			t.Errorf("a value is in the error: %v (%s)", err, api.HintOf(err))
		}
		return err
	}
	if err := add(); api.KindOf(err) != api.KindUnauthenticated || !strings.Contains(api.HintOf(err), "hortus secret set forge-token --daemon") {
		t.Errorf("without a token: %v (%s)", err, api.HintOf(err))
	}
	set("forge-token", "canary-token-0")
	if err := add(); err == nil {
		t.Error("a token that the forge does not know was accepted")
	}
	set("forge-token", token)
	if err := add(); err != nil {
		t.Errorf("%v (%s)", err, api.HintOf(err))
	}

	model := func() (ok bool, text string) {
		d, err := status{w.s}.Doctor(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range d.Models {
			if r.Name == "openai" {
				return r.OK, r.Reason + "; " + r.Fix
			}
		}
		return false, ""
	}
	if ok, text := model(); ok || !strings.Contains(text, "hortus secret set openai-key --daemon") {
		t.Errorf("without a key: %v, %s", ok, text)
	}
	set("openai-key", "canary-key-1")
	if ok, text := model(); !ok {
		t.Errorf("with a key: %s", text)
	}
	_, _, err = w.s.outgoing.Secrets(ctx, "", []api.SecretGrant{{Name: "openai-key"}})
	if api.KindOf(err) != api.KindDenied {
		t.Errorf("a grant: %v", err)
	}
}
