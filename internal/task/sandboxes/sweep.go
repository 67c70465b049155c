package sandboxes

import (
	"context"
	"maps"
	"slices"

	"hortus.dev/api"
)

// Sweep removes the workspaces that a daemon's death left to tasks that do not name them, such as that of a setup: no
// later task could use them. They may be large, so their files are removed in the background; nobody finds them when it
// returns. It is called after such tasks were declared lost, and before
// others continue and new ones begin. row returns a task, or KindNotFound. The result is how many were removed.
func (p *Provider) Sweep(ctx context.Context, row func(context.Context, api.TaskID) (api.Task, error)) (int, error) {
	ids, err := p.cfg.Workspaces.List()
	if err != nil {
		return 0, err
	}
	n := 0
	for _, id := range ids {
		w, err := p.cfg.Workspaces.Get(id)
		if err != nil || w.Task == "" || w.Keep || w.Session != "" {
			continue // gone, or unreadable; or of a person
		}
		t, err := row(ctx, w.Task)
		if api.KindOf(err) == api.KindNotFound || err == nil && !abandoned(t, id) {
			continue
		}
		if err != nil {
			return n, err
		}
		if claimed(ctx, row, t, id) {
			continue
		}
		if err := p.cfg.Workspaces.RemoveLater(id, "left by a daemon that ended"); err != nil && api.KindOf(err) != api.KindNotFound && api.KindOf(err) != api.KindConflict {
			return n, err
		}
		n++
	}
	return n, nil
}

// abandoned reports whether a task has ended without naming a workspace, or was cut before it named it, so that no task
// can use it. No task runs meanwhile.
func abandoned(t api.Task, id api.WorkspaceID) bool {
	if t.State != api.TaskDone {
		return t.Repo == nil || t.Repo.Workspace != id && !copied(t, id) &&
			!slices.ContainsFunc(t.Repo.Candidates, func(c api.Candidate) bool { return c.Workspace == string(id) })
	}
	if t.Repo != nil && copied(t, id) {
		return true // its sub-agents have ended
	}
	prepared := t.Create.Repo != nil && t.Create.Repo.NoAgent()
	return t.State == api.TaskDone && (t.Outcome == api.OutcomeLost || prepared) && (t.Repo == nil || t.Repo.Workspace != id)
}

// copied reports whether a workspace is a copy for a sub-agent of a task.
func copied(t api.Task, id api.WorkspaceID) bool {
	has := func(c api.CandidateCopies) bool { return slices.Contains(slices.Collect(maps.Values(c)), string(id)) }
	return has(t.Repo.Copies) || slices.ContainsFunc(t.Repo.Candidates, func(c api.Candidate) bool { return has(c.Copies) })
}

// maxContinued is how many tasks back a claim is looked for.
const maxContinued = 100

// claimed reports whether one of the tasks that a task continues names a workspace: it passes to the next one, perhaps
// before the row of that one says so. Doubt counts as a claim.
func claimed(ctx context.Context, row func(context.Context, api.TaskID) (api.Task, error), t api.Task, id api.WorkspaceID) bool {
	for range maxContinued {
		if t.Continues == "" {
			return false
		}
		var err error
		if t, err = row(ctx, t.Continues); err != nil || t.Repo != nil && t.Repo.Workspace == id {
			return true
		}
	}
	return true
}
