package console

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/plan"
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
	// Plan and Endless are proposed. Work on a directory of the daemon's machine begins over its own socket only, so they are not made in the browser.
	Plan    api.PlanID `json:"plan"`
	Endless api.PlanID `json:"endless"`
	// Link signs in a browser, as hortus ui does.
	Link string `json:"link"`
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
	repository := threeFiles(t)
	create := func(request, ref string, approve bool, items ...plan.Item) api.PlanID {
		return world.Must(w.Client.Plans.Create(t.Context(), plan.Create{Task: api.CreateTask{Request: request, Model: "anthropic", Sandbox: api.CreateSandbox{Isolation: "container"},
			Repo: &api.RepoTask{URL: repository, Ref: ref, Verify: "test -f a.txt", Author: api.Identity{Name: "Ada", Email: "ada@example.org"}}}, Items: items, Approve: approve}))(t).ID
	}
	proposed := create(evil, evilBranch, true,
		plan.Item{ID: "first", Title: evil, Request: "[first] Change a.txt " + evil, Touches: []string{"a.txt"}},
		plan.Item{ID: "asks", Request: "[asks] Change b.txt", Touches: []string{"b.txt"}},
		plan.Item{ID: "last", Request: "[last] Change c.txt", Touches: []string{"c.txt"}, Needs: []string{"first"}, Acceptance: "git grep -q C"})
	endless := create("Cancel it", "", true,
		plan.Item{ID: "quick", Request: "[quick] Change a.txt", Touches: []string{"a.txt"}},
		plan.Item{ID: "hangs", Request: "[hangs] Change b.txt", Touches: []string{"b.txt"}, Needs: []string{"quick"}})
	runScript(t, "plans.mjs", planScene{
		Plan: proposed, Endless: endless, Link: world.Must(w.Client.Console(t.Context()))(t).URL,
		scene: scene{
			URL: w.URL, Admin: w.Key("default", api.RoleAdmin).Secret, User: w.Key("user", "").Secret, Evil: evil, Modules: modules, Chromium: chromium, Soak: tier.Soaking(),
		},
		Models: a.url, Repository: repository, EvilBranch: evilBranch,
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
