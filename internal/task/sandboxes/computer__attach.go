package sandboxes

import (
	"context"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/durable"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/task/repo"
)

// Attach implements repo.Computers, for the account of the context's principal.
func (p *Provider) Attach(ctx context.Context, task api.TaskID, nameOrID string, layers ...repo.Layer) (api.WorkspaceID, error) {
	if p.cfg.Durable == nil {
		return "", api.Errorf(api.KindUnsupported, "tasks cannot name workspaces here")
	}
	who := api.PrincipalOf(ctx)
	digests := make([]layer.Digest, len(layers))
	for i, l := range layers {
		digests[i] = layer.Digest(l)
	}
	id := api.WorkspaceID(nameOrID)
	if !id.Valid() {
		var err error
		scope := who.Account
		if who.Role == api.RoleAdmin {
			scope = ""
		}
		id, err = p.cfg.Durable.Find(ctx, who.Account, scope, nameOrID)
		if api.KindOf(err) == api.KindNotFound {
			w, err := p.cfg.Durable.CreateOver(ctx, who.Account, nameOrID, task, digests)
			return w.ID, err
		}
		if err != nil {
			return "", err
		}
	}
	w, err := p.cfg.Durable.Row(ctx, id)
	if err == nil && !who.May(w.Account) {
		err = api.Errorf(api.KindNotFound, "unknown workspace %.64q", nameOrID)
	}
	if err == nil {
		err = p.fits(ctx, w, task, digests)
	}
	if err == nil && w.Task != task {
		err = p.cfg.Durable.InUse(ctx, w, p.cfg.Workspaces.Adopt(ctx, id, w.Task, task))
	}
	return id, err
}

// fits refuses a workspace that lies on other layers, or in which another task works: between two
// of its sandboxes nobody has the lease.
func (p *Provider) fits(ctx context.Context, w api.Workspace, task api.TaskID, digests []layer.Digest) error {
	name := durable.Label(w)
	if w.Task != "" && w.Task != task {
		t, err := p.cfg.Task(ctx, w.Task)
		if err != nil && api.KindOf(err) != api.KindNotFound {
			return err
		}
		if err == nil && t.State != api.TaskDone {
			return api.Errorf(api.KindConflict, "task %s works in workspace %s; a workspace has one writer at a time", t.ID, name).
				WithHint("wait for the task (hortus task watch %s) or cancel it: hortus task cancel %s", t.ID, t.ID)
		}
	}
	was := make([]layer.Digest, len(w.Layers))
	for i, d := range w.Layers {
		was[i] = layer.Digest(d)
	}
	if !slices.Equal(was, digests) {
		return api.Errorf(api.KindConflict, "workspace %s was not created over this commit with these dependencies", name).
			WithHint("use a name that no workspace has, and the task creates it; or name the commit: --repo PATH@COMMIT")
	}
	return nil
}
