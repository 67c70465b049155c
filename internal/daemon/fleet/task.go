package fleet

import (
	"context"
	"slices"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/server/forward"
	"hortus.dev/internal/server/placement"
	"hortus.dev/internal/store"
)

// TakersOf lists the nodes that a task of this one can continue on, the best first: none unless this node drains. They have the isolation and the template that
// it names. here is true for a task that refers to files of this machine.
func (f *Fleet) TakersOf(ctx context.Context, t api.Task, here bool) (out []store.Node, err error) {
	if !f.Draining() || here {
		return nil, nil
	}
	s := t.Create.Sandbox
	// It is asked often until the task can stop: nothing is counted.
	all, err := f.choose(ctx, forward.Need{Account: t.Account, Kind: forward.Task, Template: s.Template, Isolation: s.Isolation, Memory: s.Limits.MemoryBytes}, f.placer.Order)
	if err != nil {
		return nil, err
	}
	for _, at := range all {
		n, err := f.byID(ctx, at.ID)
		if err == nil && n.ID != f.cfg.Node && (s.Isolation == "" || s.Isolation == api.AutoIsolation || slices.Contains(n.Capacity.Isolations, s.Isolation)) &&
			(s.Template == "" || s.Template == api.HostTemplate || slices.Contains(n.Capacity.Templates, s.Template)) {
			out = append(out, n)
		}
	}
	return out, nil
}

// HandOver gives a task that has stopped here to the first of these nodes that takes it; to this node if none does. It is the heir of the task. While the database
// is away it waits, until the node leaves the fleet: nobody would continue the task before its node ends.
func (f *Fleet) HandOver(ctx context.Context, t api.Task, nodes []store.Node) (err error) {
	ctx = store.Waiting(context.WithoutCancel(ctx), f.moves.ctx)
	workspace := api.WorkspaceID("")
	if t.Repo != nil {
		workspace = t.Repo.Workspace
	}
	self := store.Node{ID: f.cfg.Node, Name: f.cfg.Name, Owner: f.cfg.Owner}
	for _, n := range append(nodes, self) {
		if err = f.cfg.Rows.HandOverTask(ctx, t.ID, workspace, f.cfg.Owner, n.Owner); api.KindOf(err) == api.KindConflict {
			continue // it has ended meanwhile
		}
		if err == nil && n.ID != self.ID {
			f.placer.Place([]placement.Node{placed(n)}, placement.Need{Memory: t.Create.Sandbox.Limits.MemoryBytes})
			f.cfg.Logger.Info("a task continues on another node", "task", t.ID, "to", n.Name)
			f.moves.mu.Lock()
			defer f.moves.mu.Unlock()
			f.moves.tasks = append(f.moves.tasks, admin.TaskMove{Task: t.ID, To: n.Name})
		}
		return err
	}
	return err
}
