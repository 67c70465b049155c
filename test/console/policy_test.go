package console

import (
	"net/http/httptest"
	"path/filepath"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/test/forgeserver"
	"hortus.dev/test/gittest"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// TestPolicy sets the branch policy of a repository in a browser, within that of the operator. Names of branches are markup.
func TestPolicy(t *testing.T) {
	tier.Soak(t)
	tier.AnyUser(t)
	t.Parallel()
	modules := needsBrowser(t)
	cfg := world.Config{}
	cfg.Policy.MaxFiles, cfg.Policy.Targets = 50, []string{"main", "next"}
	w := world.Open(t, cfg)
	dir := gittest.RealPath(t, t.TempDir())
	bare := filepath.Join(dir, "shop.git")
	gittest.Git(t, dir, "clone", "-q", "--bare", shop(t), bare)
	for _, branch := range []string{"next", "<img/src=x/onerror=alert(1)>/a", "<img/src=x/onerror=alert(1)>/b"} {
		gittest.Git(t, bare, "branch", branch)
	}
	forge := world.Must(forgeserver.New(forgeserver.Config{
		Kind: forgeserver.GitHub, Users: map[string]forgeserver.User{"token-that-writes": {Login: "ada", Write: true}},
		Repositories: []*forgeserver.Repository{{Path: "garden/shop", Dir: bare, Protected: []string{"main", "hortus/guarded-*"}}},
	}))(t)
	server := httptest.NewServer(forge)
	t.Cleanup(server.Close)
	key := w.Key("default", api.RoleAdmin)
	c := w.As(key)
	world.Must(c.Secrets.Set(t.Context(), "shop-token", secrets.Set{Value: "token-that-writes"}))(t)
	row := world.Must(c.Repositories.Add(t.Context(), api.AddRepository{URL: server.URL + "/garden/shop.git", Secret: "shop-token"}, nil))(t)
	runScript(t, "policy.mjs", hookScene{
		scene:      scene{URL: w.URL, Admin: key.Secret, User: w.Key("default", "").Secret, Evil: evil, Modules: modules, Chromium: chromium, Soak: tier.Soaking()},
		Repository: string(row.ID),
	})
}
