package remote

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/plan"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/platform/gvisorbuild"
	"hortus.dev/test/dockertest"
	"hortus.dev/test/tier"
	"hortus.dev/test/tools"
	"hortus.dev/test/world"
)

// TestSameTask: the same work on a repository has the same change and the same verdict on every backend that has workspaces, at a service too:
// a task, the best of two, and a plan.
func TestSameTask(t *testing.T) {
	tier.Soak(t) // it takes a minute; each run has the workspaces of a service's sandboxes here, and those of containers in test/conformance
	isolations := []string{"container", "docker", "gvisor", "e2b"}
	missing := map[string]string{} // why there is no such backend here
	dir := world.NewDir(t)
	cfg := world.Config{Config: daemon.Config{DataDir: dir}}
	engine, err := dockertest.Open()
	switch {
	case dockertest.Missing(err):
		missing["docker"] = err.Error()
	case err != nil:
		t.Fatal(err)
	default:
		cfg.DockerHost = engine.Host
		t.Cleanup(func() {
			if err := engine.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	// A small guest that needs no file of this host, as a release has it.
	small := gvisorbuild.GuestPath(filepath.Join(dir, "bin"))
	err = os.MkdirAll(filepath.Dir(small), 0o700)
	if err == nil {
		err = os.Rename(tools.Program(t, "./cmd/hortus-guest"), small)
	}
	if err != nil {
		t.Fatal(err)
	}
	service, key := hortus(t)
	cfg.GVisor, cfg.E2B = true, daemon.RemoteService{KeySecret: "service", APIURL: service.URL, SandboxURL: service.URL}
	w := world.Open(t, cfg)
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
	for _, work := range []struct {
		name string
		do   func(isolation string) string
	}{
		{"task", func(isolation string) string {
			return result(world.Must(w.Client.Tasks.Create(t.Context(), request(isolation, nil)))(t).ID)
		}},
		{"best of two", func(isolation string) string {
			best := &api.BestOf{Of: 2, Vary: []api.Variant{{Agent: "hortus", Model: "offline"}, {Model: "offline"}}}
			return result(world.Must(w.Client.Tasks.Create(t.Context(), request(isolation, best)))(t).ID)
		}},
		{"plan", func(isolation string) string {
			p := world.Must(w.Client.Plans.Create(t.Context(), plan.Create{Task: request(isolation, nil), Items: []plan.Item{{ID: "fix", Request: "Fix the failing test"}}}))(t)
			for _, err := range w.Client.Plans.Events(t.Context(), p.ID, 0) {
				if err != nil {
					t.Fatal(err)
				}
			}
			p = world.Must(w.Client.Plans.Get(t.Context(), p.ID))(t)
			return fmt.Sprintf("%s\n%s", p.State, result(p.Items[0].Last().Task))
		}},
	} {
		want := ""
		for _, isolation := range isolations {
			t.Run(work.name+"/"+isolation, func(t *testing.T) {
				if why := missing[isolation]; why != "" {
					t.Skip(why)
				}
				got := work.do(isolation)
				if want == "" {
					want = got
				}
				if got != want {
					t.Errorf("got\n%s\non %s\n%s", got, isolations[0], want)
				}
				t.Log(got)
			})
		}
	}
}
