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

// Work are the tasks, sessions and plans of this node.
type Work interface {
	// HandOver has sessions and plans that can stop now continue on other nodes. Tasks, and plans whose items work, hand themselves over later.
	HandOver(ctx context.Context)
	// List says of each that is here whether it goes to another node, and what it waits for, or why it stays.
	List(ctx context.Context) ([]admin.WorkMove, error)
}

// Takers lists the nodes that work for such a request can continue on: they have the isolation and the template that it names. The error is why there is none, or that this
// node does not drain. here is true for a request that refers to files of this machine.
func (f *Fleet) Takers(ctx context.Context, c api.CreateTask, here bool) (out []store.Node, err error) {
	switch {
	case !f.Draining():
		return nil, api.Errorf(api.KindConflict, "node %s is in service", f.cfg.Name)
	case here:
		return nil, api.Errorf(api.KindUnsupported, "its repository or its model is a path of this machine")
	}
	s := c.Sandbox
	only, err := f.bound(ctx, forward.Need{Account: s.Account, Template: s.Template})
	if err != nil {
		return nil, err
	}
	nodes, err := f.all(ctx, true) // one that has just died, and whose work this node took over, is not ready
	if err != nil {
		return nil, err
	}
	ready := false
	for _, n := range nodes {
		if n.ID == f.cfg.Node || n.State != api.NodeReady || gone(n) || n.Capacity.DiskFull {
			continue
		}
		ready = true
		if (only == nil || slices.ContainsFunc(only, func(at forward.Node) bool { return at.ID == n.ID })) &&
			(s.Isolation == "" || s.Isolation == api.AutoIsolation || slices.Contains(n.Capacity.Isolations, s.Isolation)) &&
			(only != nil || s.Template == "" || s.Template == api.HostTemplate || slices.Contains(n.Capacity.Templates, s.Template)) {
			out = append(out, n)
		}
	}
	switch {
	case !ready:
		return nil, errNoNode()
	case len(out) == 0:
		return nil, api.Errorf(api.KindUnavailable, "no other node has the isolation and the template of its sandboxes")
	}
	return out, nil
}

func errNoNode() error { return api.Errorf(api.KindUnavailable, "no other node is ready") }

// HandOver gives work to the best of these nodes that takes it: that is its heir. It waits while the database is away. stopped is true for work that nobody continues here: it
// waits until the node leaves the fleet, and if no node takes the work, this one is the heir. Other work stays this owner's after an error.
func (f *Fleet) HandOver(ctx context.Context, w store.Work, nodes []store.Node, stopped bool, said admin.WorkMove) (err error) {
	self := store.Node{ID: f.cfg.Node, Name: f.cfg.Name, Owner: f.cfg.Owner}
	nodes = f.order(nodes, placement.Need{})
	until := ctx
	if stopped {
		until, nodes = f.moves.ctx, append(nodes, self)
	}
	ctx = store.Waiting(context.WithoutCancel(ctx), until)
	err = errNoNode()
	for _, n := range nodes {
		if err = f.cfg.Rows.HandOver(ctx, w, f.cfg.Owner, n.Owner); api.KindOf(err) == api.KindConflict {
			continue // it has ended meanwhile
		}
		if err == nil && n.ID != self.ID {
			said.State, said.To = admin.MoveDone, n.Name
			f.cfg.Logger.Info("work continues on another node", "task", said.Task, "session", said.Session, "plan", said.Plan, "to", n.Name)
			f.moves.mu.Lock()
			defer f.moves.mu.Unlock()
			f.moves.work = append(f.moves.work, said)
		}
		return err
	}
	return err
}

// listWork says what became of the work of this node, and what is here.
func (f *Fleet) listWork(ctx context.Context) (out []admin.WorkMove, err error) {
	var here []admin.WorkMove
	if f.cfg.Work != nil {
		here, err = f.cfg.Work.List(ctx)
	}
	f.moves.mu.Lock()
	defer f.moves.mu.Unlock()
	return append(slices.Clone(f.moves.work), here...), err
}
