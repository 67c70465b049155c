package daemon

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/platform/config"
	"hortus.dev/test/forgeserver"
	"hortus.dev/test/gittest"
	"hortus.dev/test/world"
)

// TestSecretsOfTheDaemon: the daemon uses the secrets that the configuration names, as they are
// now, and grants those without bindings to no sandbox.
func TestSecretsOfTheDaemon(t *testing.T) {
	t.Parallel()
	const token = "canary-token-1"
	dir := t.TempDir()
	gittest.Git(t, dir, "clone", "-q", "--bare", gittest.NewCheckout(t, nil), "o/r.git")
	forge := world.Must(forgeserver.New(forgeserver.Config{
		Kind: forgeserver.Gitea, Users: map[string]forgeserver.User{token: {Login: "ada", Write: true}},
		Repositories: []*forgeserver.Repository{{Path: "o/r", Dir: filepath.Join(dir, "o/r.git")}},
	}))(t)
	srv := httptest.NewServer(forge)
	t.Cleanup(srv.Close)
	const begun = "canary-of-a-variable"
	log := world.Must(os.Create(filepath.Join(dir, "log")))(t)
	t.Cleanup(func() { log.Close() })
	w := newTownOf(t, daemon.Config{
		Logger:     slog.New(slog.NewTextHandler(log, nil)),
		Getenv:     func(name string) string { return map[string]string{"GITHUB_TOKEN": begun}[name] },
		KeySecrets: map[string]string{"openai": "openai-key"},
		Forges:     []config.Forge{{Host: strings.TrimPrefix(srv.URL, "http://"), Kind: "gitea", TokenSecret: "forge-token"}},
	})
	ctx := t.Context()
	set := func(name, value string) {
		t.Helper()
		world.Must(w.Client.Secrets.Set(ctx, name, secrets.Set{Value: value}))(t)
	}
	warned := func() []string {
		t.Helper()
		b := world.Must(os.ReadFile(log.Name()))(t)
		return regexp.MustCompile(`(?m)^.*level=WARN msg="the configuration names a secret.*$`).FindAllString(string(b), -1)
	}
	if all := warned(); len(all) != 2 || !strings.Contains(all[0], "secret=openai-key model=openai") || !strings.Contains(all[0], "hortus secret set openai-key --daemon") ||
		!strings.Contains(all[1], "secret=forge-token forge="+strings.TrimPrefix(srv.URL, "http://")) || !strings.Contains(all[1], "hortus secret set forge-token --daemon") {
		t.Errorf("at its start the daemon warned: %q", all)
	}
	host := strings.TrimPrefix(srv.URL, "http://")
	forges := func() []admin.ForgeReport {
		t.Helper()
		d := world.Must(w.Client.Doctor(ctx))(t)
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
		_, err := w.Client.Repositories.Add(ctx, api.AddRepository{URL: srv.URL + "/o/r.git"}, nil)
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
		d := world.Must(w.Client.Doctor(ctx))(t)
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
	w.Restart()
	if all := warned(); len(all) != 2 {
		t.Errorf("with both secrets it warns: %q", all[2:])
	}
	// Only an administrator is told of the forges.
	for _, c := range []struct {
		key    api.CreatedKey
		forges int
	}{{w.operator, 2}, {w.alice, 0}} {
		d, err := w.As(c.key).Doctor(t.Context())
		if err != nil || len(d.Forges) != c.forges {
			t.Errorf("%+v, %v; want %d forges", d.Forges, err, c.forges)
		}
	}
	_, err := w.Client.Sandboxes.Create(ctx, api.CreateSandbox{Isolation: "container", Secrets: []api.SecretGrant{{Name: "openai-key"}}})
	if api.KindOf(err) != api.KindDenied {
		t.Errorf("a grant: %v", err)
	}
}
