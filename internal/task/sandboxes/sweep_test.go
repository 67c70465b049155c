package sandboxes

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
)

// TestSweep: the workspaces of lost tasks that nobody names are removed, and no other.
func TestSweep(t *testing.T) {
	ctx := t.Context()
	layers, err := layer.Open(filepath.Join(t.TempDir(), "layers"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(layers.Close)
	store, err := workspace.Open(ctx, workspace.Config{Dir: filepath.Join(t.TempDir(), "workspaces"), Layers: layers})
	if err != nil {
		t.Fatal(err)
	}
	p := New(Config{Layers: layers, Workspaces: store})
	base, release, err := p.Layer(ctx, "base", func(_ context.Context, dir string) error {
		return os.WriteFile(filepath.Join(dir, "f"), nil, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	rows := map[api.TaskID]api.Task{}
	row := func(_ context.Context, id api.TaskID) (api.Task, error) {
		if task, ok := rows[id]; ok {
			return task, nil
		}
		return api.Task{}, api.Errorf(api.KindNotFound, "no task %s", id)
	}
	lost := api.Task{State: api.TaskDone, Outcome: api.OutcomeLost}
	first, continued := api.NewTaskID(), api.NewTaskID()
	for _, c := range []struct {
		name  string
		task  func(id api.WorkspaceID) api.Task
		stays bool
	}{
		{"of a lost task", func(api.WorkspaceID) api.Task { return lost }, false},
		{"of a lost task that names another", func(api.WorkspaceID) api.Task {
			task := lost
			task.Repo = &api.RepoResult{Workspace: api.NewWorkspaceID()}
			return task
		}, false},
		{"of a preparation that has ended", func(api.WorkspaceID) api.Task {
			return api.Task{State: api.TaskDone, Outcome: api.OutcomeVerified, Create: api.CreateTask{Repo: &api.RepoTask{PrepareOnly: true}}}
		}, false},
		{"the work of a lost task", func(id api.WorkspaceID) api.Task {
			task := lost
			task.Repo = &api.RepoResult{Workspace: id}
			return task
		}, true},
		{"a copy for a sub-agent of a task that goes on", func(id api.WorkspaceID) api.Task {
			return api.Task{State: api.TaskRunning, Repo: &api.RepoResult{Copies: api.CandidateCopies{"research 1": string(id)}}}
		}, true},
		{"a copy for a sub-agent of a candidate that goes on", func(id api.WorkspaceID) api.Task {
			return api.Task{State: api.TaskRunning, Repo: &api.RepoResult{Candidates: []api.Candidate{{Copies: api.CandidateCopies{"research 1": string(id)}}}}}
		}, true},
		{"a copy for a sub-agent of a task that has ended", func(id api.WorkspaceID) api.Task {
			return api.Task{State: api.TaskDone, Outcome: api.OutcomeCanceled, Repo: &api.RepoResult{Copies: api.CandidateCopies{"research 1": string(id)}}}
		}, false},
		{"of a task that goes on and was cut before it named it", func(api.WorkspaceID) api.Task { return api.Task{State: api.TaskRunning} }, false},
		{"the work of a task that goes on", func(id api.WorkspaceID) api.Task {
			return api.Task{State: api.TaskRunning, Repo: &api.RepoResult{Workspace: id}}
		}, true},
		{"of a task with a question", func(api.WorkspaceID) api.Task {
			return api.Task{State: api.TaskDone, Outcome: api.OutcomeNeedsHuman}
		}, true},
		{"of the task that a lost one continues", func(id api.WorkspaceID) api.Task {
			rows[first] = api.Task{State: api.TaskDone, Repo: &api.RepoResult{Workspace: id}}
			rows[continued] = api.Task{State: api.TaskDone, Continues: first}
			task := lost
			task.Continues = continued
			return task
		}, true},
		{"that continues a task that is gone", func(api.WorkspaceID) api.Task {
			task := lost
			task.Continues = api.NewTaskID()
			return task
		}, true},
	} {
		task := api.NewTaskID()
		id, err := p.Workspace(ctx, task, base)
		if err != nil {
			t.Fatal(err)
		}
		rows[task] = c.task(id)
		if _, err := p.Sweep(ctx, row); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Get(id); (err == nil) != c.stays {
			t.Errorf("a workspace %s: stays %t, want %t", c.name, err == nil, c.stays)
		}
		delete(rows, task)
	}
}
