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

// hookScene is what the script about webhooks is told.
type hookScene struct {
	scene
	Repository string `json:"repository"`
}

// TestHooks creates a webhook in a browser, which then shows what a forge sends.
func TestHooks(t *testing.T) {
	tier.Soak(t)
	tier.AnyUser(t)
	t.Parallel()
	modules := needsBrowser(t)
	w := world.Open(t, world.Config{})
	dir := gittest.RealPath(t, t.TempDir())
	bare := filepath.Join(dir, "shop.git")
	gittest.Git(t, dir, "clone", "-q", "--bare", shop(t), bare)
	forge := world.Must(forgeserver.New(forgeserver.Config{
		Kind: forgeserver.GitHub, Users: map[string]forgeserver.User{"token-that-writes": {Login: "ada", Write: true, Admin: true}},
		Repositories: []*forgeserver.Repository{{Path: "garden/shop", Dir: bare}},
	}))(t)
	forge.AddIssue(forgeserver.Issue{Repository: "garden/shop", Number: 7, Title: "T", Author: "ann"})
	server := httptest.NewServer(forge)
	t.Cleanup(server.Close)
	key := w.Key("default", api.RoleAdmin)
	c := w.As(key)
	if _, err := c.Secrets.Set(t.Context(), "shop-token", secrets.Set{Value: "token-that-writes"}); err != nil {
		t.Fatal(err)
	}
	row, err := c.Repositories.Add(t.Context(), api.AddRepository{URL: server.URL + "/garden/shop.git", Secret: "shop-token"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	runScript(t, "hooks.mjs", hookScene{
		scene:      scene{URL: w.URL, Admin: key.Secret, User: w.Key("user", "").Secret, Evil: evil, Modules: modules, Chromium: chromium, Soak: tier.Soaking()},
		Repository: string(row.ID),
	})
}
