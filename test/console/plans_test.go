package console

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/daemon"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// planScene is what the script about plans and sessions is told.
type planScene struct {
	scene
	// Models releases steps of agents that are held: POST /release/NAME.
	Models string `json:"models"`
	// Repository has the files a.txt, b.txt and c.txt.
	Repository string `json:"repository"`
	EvilBranch string `json:"evilBranch"`
}

const planAgents = `first shell echo A >a.txt
first hold first
first finish done
asks shell echo B >b.txt; mkdir -p .hortus; echo 'c.txt <img src=x onerror="window.pwned=1">' >.hortus/request-files
asks finish c.txt is needed
asks shell echo more >>b.txt
asks finish done
last shell echo C >c.txt
last finish done
quick shell echo quick >a.txt
quick finish done
hangs shell sleep 3000
hello shell echo hello >greeting.txt
hello hold hello
hello say The greeting is there. <script>window.pwned=1</script>
again say It says hello.
endless shell sleep 3000
`

// TestPlansAndSessions uses plans and sessions in a browser, with scripted agents and real sandboxes.
func TestPlansAndSessions(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	modules := needsBrowser(t)
	a := newAgents(t, planAgents)
	w := world.Open(t, world.Config{Config: daemon.Config{Getenv: a.getenv}})
	w.Isolates(t, "container")
	runScript(t, "plans.mjs", planScene{
		scene: scene{
			URL: w.URL, Admin: w.Key("default", api.RoleAdmin).Secret, User: w.Key("user", "").Secret, Evil: evil, Modules: modules, Chromium: chromium, Soak: tier.Soaking(),
		},
		Models: a.url, Repository: threeFiles(t), EvilBranch: evilBranch,
	})
}

// threeFiles makes a repository with a branch whose name is markup.
func threeFiles(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "three")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		if err := os.WriteFile(filepath.Join(dir, name+".txt"), []byte(name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qm", "Begin"}, {"branch", evilBranch}} {
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return dir
}

// evilBranch is markup that is the name of a branch.
const evilBranch = `<img/src=x/onerror="window.pwned=1">`
