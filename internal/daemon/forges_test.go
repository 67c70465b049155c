package daemon

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/api/secrets"
	"hortus.dev/client"
	"hortus.dev/internal/platform/config"
	"hortus.dev/internal/task/delivery"
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
	const begun = "canary-of-a-variable"
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	w := newTownOf(t, Config{
		Logger:     slog.New(slog.NewTextHandler(log, nil)),
		Getenv:     func(name string) string { return map[string]string{"GITHUB_TOKEN": begun}[name] },
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
	warned := func() []string {
		t.Helper()
		b, err := os.ReadFile(log.Name())
		if err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(`(?m)^.*level=WARN msg="the configuration names a secret.*$`).FindAllString(string(b), -1)
	}
	if all := warned(); len(all) != 2 || !strings.Contains(all[0], "secret=openai-key model=openai") || !strings.Contains(all[0], "hortus secret set openai-key --daemon") ||
		!strings.Contains(all[1], "secret=forge-token forge="+strings.TrimPrefix(srv.URL, "http://")) || !strings.Contains(all[1], "hortus secret set forge-token --daemon") {
		t.Errorf("at its start the daemon warned: %q", all)
	}
	host := strings.TrimPrefix(srv.URL, "http://")
	forges := func() []admin.ForgeReport {
		t.Helper()
		d, err := status{w.s}.Doctor(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if text := fmt.Sprintf("%+v", d); strings.Contains(text, "canary") {
			t.Errorf("a token is in the report: %s", text)
		}
		return d.Forges
	}
	github := admin.ForgeReport{Kind: "github", Host: "github.com", Token: "in a variable", OK: true}
	if all := forges(); len(all) != 2 || all[0].Host != host || all[0].Kind != "gitea" || all[0].OK || all[0].Token != "in the secret forge-token" ||
		!strings.Contains(all[0].Reason, "forge-token") || !strings.Contains(all[0].Fix, "hortus secret set forge-token --daemon") || all[1] != github {
		t.Errorf("without a token: %+v", all)
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
	if all := forges(); len(all) != 2 || all[0] != (admin.ForgeReport{Kind: "gitea", Host: host, Token: "in the secret forge-token", OK: true}) || all[1] != github {
		t.Errorf("with a token: %+v", all)
	}
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
	// Once they are set, the next daemon warns of nothing.
	w.s.secrets.Warn(ctx, "model", w.s.cfg.KeySecrets)
	w.s.secrets.Warn(ctx, "forge", delivery.TokenSecrets(w.s.cfg.Forges))
	if all := warned(); len(all) != 2 {
		t.Errorf("with both secrets it warns: %q", all[2:])
	}
	// Only an administrator is told of the forges.
	for key, n := range map[string]int{w.operator.Secret: 2, w.alice.Secret: 0} {
		c, err := client.Remote(w.url, key)
		if err != nil {
			t.Fatal(err)
		}
		d, err := c.Doctor(t.Context())
		if err != nil || len(d.Forges) != n {
			t.Errorf("%+v, %v; want %d forges", d.Forges, err, n)
		}
	}
	_, _, err = w.s.outgoing.Secrets(ctx, "", []api.SecretGrant{{Name: "openai-key"}})
	if api.KindOf(err) != api.KindDenied {
		t.Errorf("a grant: %v", err)
	}
}
