package console

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/patience"
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
	// Pictures is a folder for pictures of the pages, empty for none.
	Pictures string `json:"pictures"`
}

// TestSandboxPages goes through the pages of sandboxes: the tree of forks and snapshots, usage, templates, and ports, whose pages
// attack the console from the origin next to it. In the soak tier it builds the preset of a browser, and uses it.
func TestSandboxPages(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	modules := installed(t, ".", "hortus-console")
	if _, err := os.Stat(chromium); err != nil {
		t.Skipf("there is no browser: %v; apt-get install chromium", err)
	}
	server, err := os.ReadFile("server.py")
	if err != nil {
		t.Fatal(err)
	}
	w := world.Open(t, world.Config{})
	w.Isolates(t, "container")
	told, err := json.Marshal(boxScene{
		// Ports are below localhost: for a browser this is the site of the console too.
		URL:   strings.Replace(w.URL, "127.0.0.1", "localhost", 1),
		Admin: w.Key("default", api.RoleAdmin).Secret, User: w.Key("user", "").Secret, Server: string(server),
		Modules: modules, Chromium: chromium, Soak: tier.Soaking(), Pictures: os.Getenv("HORTUS_PICTURES"),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(5*time.Minute))
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "box.mjs")
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
