package console

import (
	"os"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// boxScene is what the browser's script about sandboxes is told.
type boxScene struct {
	URL   string `json:"url"`
	Admin string `json:"admin"`
	// User is a key of another account.
	User string `json:"user"`
	// Server is the program of server.py.
	Server   string `json:"server"`
	Modules  string `json:"modules"`
	Chromium string `json:"chromium"`
	Soak     bool   `json:"soak"`
}

// TestSandboxPages goes through the pages of sandboxes: the tree of forks and snapshots, usage, templates, and ports, whose pages
// attack the console from the origin next to it. In the soak tier it builds the preset of a browser, and uses it.
func TestSandboxPages(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	modules := needsBrowser(t)
	server, err := os.ReadFile("server.py")
	if err != nil {
		t.Fatal(err)
	}
	w := world.Open(t, world.Config{})
	w.Isolates(t, "container")
	runScript(t, "box.mjs", boxScene{
		// Ports are below localhost: for a browser this is the site of the console too.
		URL:   strings.Replace(w.URL, "127.0.0.1", "localhost", 1),
		Admin: w.Key("default", api.RoleAdmin).Secret, User: w.Key("user", "").Secret, Server: string(server),
		Modules: modules, Chromium: chromium, Soak: tier.Soaking(),
	})
}
