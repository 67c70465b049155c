package remote

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/plan"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/platform/gvisorbuild"
	"hortus.dev/test/tier"
	"hortus.dev/test/tools"
	"hortus.dev/test/world"
)

// TestSameTask: the same work on a repository has the same change and the same verdict on a container here and at a service:
// a task, the best of two, and a plan.
func TestSameTask(t *testing.T) {
	tier.Soak(t) // it takes half a minute; the suite has the workspaces of a service's sandboxes in each run
	service, key := hortus(t)
	// A small guest that needs no file of this host, as a release has it.
	dir := world.NewDir(t)
	small := gvisorbuild.GuestPath(filepath.Join(dir, "bin"))
	err := os.MkdirAll(filepath.Dir(small), 0o700)
	if err == nil {
		err = os.Rename(tools.Program(t, "./cmd/hortus-guest"), small)
	}
	if err != nil {
		t.Fatal(err)
	}
	w := world.Open(t, world.Config{Config: daemon.Config{DataDir: dir, E2B: daemon.RemoteService{KeySecret: "service", APIURL: service.URL, SandboxURL: service.URL}}})
	world.Must(w.Client.Secrets.Set(t.Context(), "service", secrets.Set{Value: key}))(t)
	shop := filepath.Join(t.TempDir(), "shop")
	if err := os.CopyFS(shop, os.DirFS("../../examples/tasks/python")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qm", "Begin"}} {
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", shop}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	request := func(isolation string, best *api.BestOf) api.CreateTask {
		return api.CreateTask{Request: "Fix the failing test", Sandbox: api.CreateSandbox{Isolation: isolation},
			Repo: &api.RepoTask{URL: shop, Verify: "python3 -m unittest", Author: api.Identity{Name: "Ada", Email: "ada@example.org"}, Best: best}}
	}
	// result is the outcome of a task, and its change.
	result := func(id api.TaskID) string {
		for _, err := range w.Client.Tasks.Events(t.Context(), id, 0) {
			if err != nil {
				t.Fatal(err)
			}
		}
		task := world.Must(w.Client.Tasks.Get(t.Context(), string(id)))(t)
		diff := world.Must(w.Client.Tasks.Diff(t.Context(), id, 0))(t)
		defer diff.Close()
		text := world.Must(io.ReadAll(diff))(t)
		return fmt.Sprintf("%s\n%s", task.Outcome, text)
	}
	for name, work := range map[string]func(isolation string) string{
		"task": func(isolation string) string {
			return result(world.Must(w.Client.Tasks.Create(t.Context(), request(isolation, nil)))(t).ID)
		},
		"best of two": func(isolation string) string {
			best := &api.BestOf{Of: 2, Vary: []api.Variant{{Agent: "hortus", Model: "offline"}, {Model: "offline"}}}
			return result(world.Must(w.Client.Tasks.Create(t.Context(), request(isolation, best)))(t).ID)
		},
		"plan": func(isolation string) string {
			p := world.Must(w.Client.Plans.Create(t.Context(), plan.Create{Task: request(isolation, nil), Items: []plan.Item{{ID: "fix", Request: "Fix the failing test"}}}))(t)
			for _, err := range w.Client.Plans.Events(t.Context(), p.ID, 0) {
				if err != nil {
					t.Fatal(err)
				}
			}
			p = world.Must(w.Client.Plans.Get(t.Context(), p.ID))(t)
			return fmt.Sprintf("%s\n%s", p.State, result(p.Items[0].Last().Task))
		},
	} {
		var got []string
		for _, isolation := range []string{"container", "e2b"} {
			got = append(got, work(isolation))
		}
		if len(slices.Compact(got)) != 1 {
			t.Errorf("%s: on a container\n%s\nat the service\n%s", name, got[0], got[1])
		}
		t.Logf("%s: %s", name, got[0])
	}
}
