package console

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/platform/config"
	"hortus.dev/test/forgeserver"
	"hortus.dev/test/gittest"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// steered is what the script that steers tasks is told.
type steered struct {
	scene
	// Forge is the address of a repository, and Token is for its API.
	Forge string `json:"forge"`
	Token string `json:"token"`
	// Outside is the port of example.com.
	Outside string `json:"outside"`
	// Control restarts the daemon.
	Control string `json:"control"`
}

// TestSteering reviews, delivers and cancels tasks, answers a program that waits, and restarts the daemon, in a browser.
func TestSteering(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	modules := needsBrowser(t)
	const token = "token-that-writes"
	dir := gittest.RealPath(t, t.TempDir())
	bare := filepath.Join(dir, "garden", "shop.git")
	gittest.Git(t, dir, "clone", "-q", "--bare", exampleRepository(t), bare)
	forge := world.Must(forgeserver.New(forgeserver.Config{
		Kind: forgeserver.Gitea, Users: map[string]forgeserver.User{token: {Login: "ada", Write: true}},
		Repositories: []*forgeserver.Repository{{Path: "garden/shop", Dir: bare}},
	}))(t)
	server := httptest.NewServer(forge)
	t.Cleanup(server.Close)
	out := world.NewOutside(t)
	out.Distant(t)
	out.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "an answer from far away\n") })
	w := world.Open(t, world.Config{Outside: out, Config: daemon.Config{
		Forges: []config.Forge{{Host: strings.TrimPrefix(server.URL, "http://"), Kind: forgeserver.Gitea, TokenSecret: "forge-token"}},
	}})
	w.Isolates(t, "container")
	w.Config.Front.Listen = strings.TrimPrefix(w.URL, "http://") // the same port after a restart
	world.Must(w.Client.Secrets.Set(t.Context(), "forge-token", secrets.Set{Value: token}))(t)
	control := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { w.Restart() }))
	t.Cleanup(control.Close)
	runScript(t, "steer.mjs", steered{
		scene: scene{URL: w.URL, Admin: w.Key("default", api.RoleAdmin).Secret, Modules: modules, Chromium: chromium},
		Forge: server.URL + "/garden/shop.git", Token: token, Control: control.URL, Outside: out.Port,
	})
}
