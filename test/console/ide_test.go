package console

import (
	"os"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// TestEditor builds the preset of an editor, which needs the package registry of npm, and edits a file and runs a command with it in
// a browser. What needs no registry is in TestSandboxPages.
func TestEditor(t *testing.T) {
	tier.Soak(t)
	tier.AnyUser(t)
	modules := needsBrowser(t)
	w := world.Open(t, world.Config{})
	w.Isolates(t, "container")
	runScript(t, "ide.mjs", struct {
		scene
		Pictures string `json:"pictures"`
	}{scene{
		// Ports are below localhost: for a browser this is the site of the console too.
		URL: strings.Replace(w.URL, "127.0.0.1", "localhost", 1), Admin: w.Key("default", api.RoleAdmin).Secret, User: w.Key("user", "").Secret,
		Modules: modules, Chromium: chromium,
	}, os.Getenv("HORTUS_PICTURES")})
}
