package console

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// chromium is the browser of Debian's package.
const chromium = "/usr/bin/chromium"

// evil is shown as text wherever it stands: in requests, names of files and labels, output of programs, words of a model.
const evil = `<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>{@html 1}`

// scene is what the browser's script is told.
type scene struct {
	URL     string `json:"url"`
	Admin   string `json:"admin"`
	User    string `json:"user"`
	UserID  string `json:"userId"`
	Evil    string `json:"evil"`
	EvilBox string `json:"evilBox"`
	// EvilTask is a task whose every text is evil, RepoTask one that changed a repository.
	EvilTask string `json:"evilTask"`
	RepoTask string `json:"repoTask"`
	// ManyTask has 10,000 events; it is there in the soak tier only.
	ManyTask string `json:"manyTask"`
	Modules  string `json:"modules"`
	Chromium string `json:"chromium"`
	Soak     bool   `json:"soak"`
}

// TestBrowser goes through the console in a browser. The script says which of its steps passed.
func TestBrowser(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	modules := needsBrowser(t)
	w := world.Open(t, world.Config{})
	w.Isolates(t, "container")
	user := w.Key("user", "")
	s := scene{
		URL: w.URL, Admin: w.Key("default", api.RoleAdmin).Secret, User: user.Secret, UserID: string(user.ID), Evil: evil,
		Modules: modules, Chromium: chromium, Soak: tier.Soaking(),
	}
	s.EvilTask, s.EvilBox, s.RepoTask = evilTask(t, w), evilBox(t, w), repoTask(t, w)
	if tier.Soaking() {
		s.ManyTask = manyTask(t, w)
	}
	runScript(t, "console.mjs", s)
}

// evilTask stores a task whose texts are markup.
func evilTask(t *testing.T, w *world.World) string {
	t.Helper()
	id, now := api.NewTaskID(), time.Now()
	task := api.Task{
		ID: id, State: api.TaskDone, Outcome: api.OutcomeNeedsHuman, Create: api.CreateTask{Request: evil}, CreatedAt: now, EndedAt: now, Question: evil, Diagnosis: evil, Model: evil,
		Receipt: &api.Receipt{Completed: []string{evil}, Skipped: []string{evil}},
	}
	if err := w.DB.InsertTask(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	for _, e := range []struct {
		kind api.EventType
		data any
	}{
		{api.EventTaskCreated, task}, {api.EventSay, api.SayEvent{Text: evil}}, {api.EventTool, api.ToolEvent{Tool: evil, Input: evil, Output: evil}},
		{api.EventOutput, api.OutputEvent{Attempt: 1, Stream: "stdout", Data: []byte(evil)}}, {api.EventRepoStep, api.RepoStepEvent{Step: evil, Line: evil, Error: evil}},
	} {
		data, err := json.Marshal(e.data)
		if err == nil {
			_, err = w.DB.AppendEvent(t.Context(), api.Stream{Kind: api.StreamTask, ID: string(id)}, e.kind, now, data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return string(id)
}

// manyTask stores a task with 10,000 events: what the agent said, and what it did between.
func manyTask(t *testing.T, w *world.World) string {
	t.Helper()
	id, now := api.NewTaskID(), time.Now()
	stream := api.Stream{Kind: api.StreamTask, ID: string(id)}
	if err := w.DB.InsertTask(t.Context(), api.Task{ID: id, State: api.TaskDone, Outcome: api.OutcomeVerified, Create: api.CreateTask{Request: "Many events"}, CreatedAt: now, EndedAt: now}); err != nil {
		t.Fatal(err)
	}
	for n := range 10_000 {
		kind, data := api.EventTool, any(api.ToolEvent{Tool: "shell", Input: "make test", Output: strings.Repeat("ok\n", 100), MS: 10})
		if n%5 == 4 {
			kind, data = api.EventSay, api.SayEvent{Text: fmt.Sprintf("said %d", n)}
		}
		b, err := json.Marshal(data)
		if err == nil {
			_, err = w.DB.AppendEvent(t.Context(), stream, kind, now, b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return string(id)
}

// evilBox creates a sandbox with such labels, files and output.
func evilBox(t *testing.T, w *world.World) string {
	t.Helper()
	box := world.Must(w.Client.Sandboxes.Create(t.Context(), api.CreateSandbox{Isolation: "container", TTLMS: time.Hour.Milliseconds(), Labels: map[string]string{evil: evil}}))(t)
	name := strings.ReplaceAll(evil, "/", "|")
	if err := box.WriteFile(t.Context(), "", name, strings.NewReader(evil)); err != nil {
		t.Fatal(err)
	}
	if err := box.Command(t.Context(), "echo", evil).Run(); err != nil {
		t.Fatal(err)
	}
	return string(box.ID())
}

// repoTask has the offline model repair the example repository.
func repoTask(t *testing.T, w *world.World) string {
	t.Helper()
	task := world.Must(w.Client.Tasks.Create(t.Context(), api.CreateTask{Request: "Fix the failing test", Sandbox: api.CreateSandbox{Isolation: "container"},
		Repo: &api.RepoTask{URL: exampleRepository(t), Verify: "python3 -m unittest", Author: api.Identity{Name: "Ada", Email: "ada@example.org"}}}))(t)
	return string(task.ID)
}

// exampleRepository returns a checkout of the example with a failing test.
func exampleRepository(t *testing.T) string {
	t.Helper()
	shop := filepath.Join(t.TempDir(), "shop")
	if err := os.CopyFS(shop, os.DirFS("../../examples/tasks/python")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qm", "Begin"}} {
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", shop}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return shop
}
