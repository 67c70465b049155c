package daemon

import (
	"net/http"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/plan"
	"hortus.dev/client"
	"hortus.dev/internal/daemon"
	"hortus.dev/test/world"
)

// TestIsolationOfAKey: a key that may use only wasm asks for a container in every way. The control is another key of the account,
// which gets it in each way that users have.
func TestIsolationOfAKey(t *testing.T) {
	t.Parallel()
	w := world.Open(t, world.Config{Config: daemon.Config{Usual: api.CreateSandbox{Isolation: "container"}}})
	w.Isolates(t, "container")
	ctx := t.Context()
	one := world.Must(w.Client.Keys.Create(ctx, api.CreateKey{Account: "alice", Ceilings: api.Ceilings{Isolations: []string{"wasm"}}}))(t)
	two := w.Key("alice", api.RoleUser)
	limited, free := w.As(one), w.As(two)

	origin := world.Sandbox(t, w.Client, api.CreateSandbox{Isolation: "container"})
	world.Must(origin.Snapshot(ctx, api.CreateSnapshot{Name: "tools", FilesOnly: true}))(t)
	parent := world.Sandbox(t, free, api.CreateSandbox{Isolation: "container"})
	program := &api.CodeArtifact{Language: api.Python, Files: []api.File{{Path: "main.py", Content: "print(1)"}}, Run: "python3 main.py"}
	ended := func(s *client.Sandbox, err error) error {
		if err == nil {
			_, err = s.Kill(ctx)
			s.Close()
		}
		return err
	}
	create := func(req api.CreateSandbox) func(*client.Client) error {
		return func(c *client.Client) error { return ended(c.Sandboxes.Create(ctx, req)) }
	}
	task := func(req api.CreateTask) func(*client.Client) error {
		return func(c *client.Client) error {
			made, err := c.Tasks.Create(ctx, req)
			if err == nil {
				_, err = c.Tasks.Cancel(ctx, made.ID)
			}
			return err
		}
	}
	for name, do := range map[string]func(*client.Client) error{
		"request":                   create(api.CreateSandbox{Isolation: "container"}),
		"default of the daemon":     create(api.CreateSandbox{}),
		"auto":                      create(api.CreateSandbox{Isolation: "auto"}),
		"template":                  create(api.CreateSandbox{Template: "tools"}),
		"template and its backend":  create(api.CreateSandbox{Template: "tools", Isolation: "container"}),
		"task":                      task(api.CreateTask{Artifact: program, Sandbox: api.CreateSandbox{Isolation: "container"}}),
		"task without an isolation": task(api.CreateTask{Artifact: program}),
		"task from the template":    task(api.CreateTask{Artifact: program, Sandbox: api.CreateSandbox{Template: "tools"}}),
		"new template": func(c *client.Client) error {
			_, err := c.Templates.Create(ctx, api.CreateTemplate{Name: "mine", Isolation: "container"}, nil)
			return err
		},
		"build": func(c *client.Client) error {
			_, err := c.Templates.Build(ctx, api.BuildTemplate{Name: "built", Dockerfile: "FROM host\nRUN true\n", Isolation: "container"}, nil)
			return err
		},
		"build without an isolation": func(c *client.Client) error {
			_, err := c.Templates.Build(ctx, api.BuildTemplate{Name: "built", Dockerfile: "FROM host\nRUN true\n"}, nil)
			return err
		},
		"fork": func(c *client.Client) error {
			s, err := c.Sandboxes.Get(ctx, string(parent.ID()))
			if err != nil {
				return err
			}
			defer s.Close()
			out, err := s.Fork(ctx, api.ForkSandbox{FilesOnly: true})
			for _, child := range out.Children {
				if err == nil && child.Sandbox != nil {
					err = ended(c.Sandboxes.Get(ctx, string(child.Sandbox.ID)))
				}
			}
			return err
		},
	} {
		if err := do(limited); api.KindOf(err) != api.KindDenied || !strings.Contains(err.Error(), "this API key may") {
			t.Errorf("%s: %v; want kind denied", name, err)
		}
		if err := do(free); err != nil {
			t.Errorf("control, %s: %v", name, err)
		}
	}
	// What needs an admin is refused before that, whatever the repository's default is.
	repo := &api.RepoTask{URL: "https://git.example/app", Author: api.Identity{Name: "Ada", Email: "ada@example.org"}}
	if err := task(api.CreateTask{Request: "work", Repo: repo})(limited); api.KindOf(err) != api.KindDenied {
		t.Errorf("task on a repository: %v", err)
	}
	if _, err := limited.Plans.Create(ctx, plan.Create{Task: api.CreateTask{Request: "work", Repo: repo}}); api.KindOf(err) != api.KindDenied {
		t.Errorf("plan: %v", err)
	}
	// Nobody sends what the daemon says of a default.
	said := *repo
	said.IsolationFrom = "app"
	if err := task(api.CreateTask{Request: "work", Repo: &said, Sandbox: api.CreateSandbox{Isolation: "process"}})(w.Client); api.KindOf(err) != api.KindInvalid {
		t.Errorf("isolationFrom in a request: %v", err)
	}
	// The control of the limit: what it allows.
	if err := create(api.CreateSandbox{Isolation: "wasm"})(limited); err != nil {
		t.Errorf("control, wasm: %v", err)
	}
	// E2B's wire has no word for it: the default of the daemon counts there.
	for name, c := range map[string]struct {
		secret string
		want   int
	}{"limited": {one.Secret, http.StatusForbidden}, "control": {two.Secret, http.StatusCreated}} {
		if status, body := w.Call("POST", "/v2/sandboxes", `{"templateID":"base","timeout":60}`, "X-API-KEY", c.secret); status != c.want {
			t.Errorf("E2B, %s: %d %s", name, status, body)
		}
	}
}
