package computer

import (
	"context"

	"hortus.dev/api"
)

// Sweep removes the workspaces that a daemon's death left to tasks that do not name them, such as that of a setup: no
// later task could use them, and they may be large. It is called after such tasks were declared lost. row returns a
// task, or KindNotFound. The result is how many were removed.
func (p *Computers) Sweep(ctx context.Context, row func(context.Context, api.TaskID) (api.Task, error)) (int, error) {
	ids, err := p.cfg.Workspaces.List()
	if err != nil {
		return 0, err
	}
	n := 0
	for _, id := range ids {
		w, err := p.cfg.Workspaces.Get(id)
		if err != nil || w.Task == "" || w.Keep {
			continue // gone, or unreadable; or of a person
		}
		t, err := row(ctx, w.Task)
		if api.KindOf(err) == api.KindNotFound || err == nil && !abandoned(t, id) {
			continue
		}
		if err != nil {
			return n, err
		}
		// A task that continues another one has the workspace of that one, perhaps before its row says so.
		if t.Continues != "" {
			before, err := row(ctx, t.Continues)
			if err != nil || before.Repo != nil && before.Repo.Workspace == id {
				continue
			}
		}
		if err := p.cfg.Workspaces.Remove(ctx, id, "left by a daemon that ended"); err != nil && api.KindOf(err) != api.KindNotFound && api.KindOf(err) != api.KindConflict {
			return n, err
		}
		n++
	}
	return n, nil
}

// abandoned reports whether a task is lost and does not name a workspace.
func abandoned(t api.Task, id api.WorkspaceID) bool {
	return t.State == api.TaskDone && t.Outcome == api.OutcomeLost && (t.Repo == nil || t.Repo.Workspace != id)
}
