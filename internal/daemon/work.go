package daemon

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/api/plan"
	"hortus.dev/api/session"
	httpapi "hortus.dev/internal/server/http"
	"hortus.dev/internal/store"
)

// otherNodes have work continue on other nodes of the fleet.
type otherNodes struct{ s *System }

// Leaves returns nil if work for such a request is to continue on another node, or else why it is not.
func (o otherNodes) Leaves(ctx context.Context, account string, c api.CreateTask) error {
	_, err := o.takers(ctx, account, c)
	return err
}

func (o otherNodes) takers(ctx context.Context, account string, c api.CreateTask) ([]store.Node, error) {
	f := o.s.joined.Load()
	if f == nil {
		return nil, api.Errorf(api.KindUnavailable, "the node is starting")
	}
	c.Sandbox.Account = account
	return f.Takers(ctx, c, httpapi.OfThisMachine(c))
}

// tasksElsewhere implements task.Elsewhere.
type tasksElsewhere struct{ otherNodes }

// Leaves implements task.Elsewhere.
func (e tasksElsewhere) Leaves(ctx context.Context, t api.Task) error {
	if r := t.Create.Repo; r != nil && r.Item != nil {
		return e.s.plans.Leaves(r.Item.Plan)
	}
	return e.otherNodes.Leaves(ctx, t.Account, t.Create)
}

// HandOver implements task.Elsewhere.
func (e tasksElsewhere) HandOver(ctx context.Context, t api.Task) error {
	w := store.Work{Tasks: []api.TaskID{t.ID}}
	if t.Repo != nil && t.Repo.Workspace != "" {
		w.Workspaces = []api.WorkspaceID{t.Repo.Workspace}
	}
	nodes, _ := e.takers(ctx, t.Account, t.Create) // without one, this node continues it
	return e.s.joined.Load().HandOver(ctx, w, nodes, true, admin.WorkMove{Task: t.ID})
}

// Moved implements task.Elsewhere.
func (e tasksElsewhere) Moved(ctx context.Context, from api.OwnerID) *api.TaskMove {
	was, err := e.s.db.NodeOfOwner(ctx, from)
	if err != nil {
		return nil // its node was removed, or there is none
	}
	given, err := e.s.db.HandedOver(ctx, from)
	if err != nil || was.ID == e.s.node && !given {
		return nil
	}
	now, err := e.s.db.Node(ctx, e.s.node)
	if err != nil {
		return nil
	}
	move := &api.TaskMove{From: was.Name, To: now.Name, Why: api.MoveEnded}
	if given {
		move.Why = api.MoveDrained
	}
	return move
}

// sessionsElsewhere implements session.Elsewhere.
type sessionsElsewhere struct{ otherNodes }

// Stored implements session.Elsewhere.
func (e sessionsElsewhere) Stored(ctx context.Context, ws, checkpoint api.WorkspaceID) bool {
	if e.s.sealed == nil || !e.s.sealed.Stored(ctx, ws) {
		return false
	}
	return e.s.sameFiles(ctx, ws, checkpoint)
}

// HandOver implements session.Elsewhere.
func (e sessionsElsewhere) HandOver(ctx context.Context, s session.Session, c api.CreateTask, checkpoints []api.WorkspaceID) error {
	nodes, err := e.takers(ctx, s.Account, c)
	if err != nil {
		return err
	}
	w := store.Work{Session: s.ID}
	if s.Workspace != "" {
		w.Workspaces = []api.WorkspaceID{s.Workspace}
	}
	for _, id := range checkpoints { // the others stay, and return with this node
		if c, err := e.s.db.Workspace(ctx, id); err == nil && c.Archived != nil {
			w.Workspaces = append(w.Workspaces, id)
		}
	}
	return e.s.joined.Load().HandOver(ctx, w, nodes, false, admin.WorkMove{Session: s.ID, Key: s.Key})
}

// plansElsewhere implements plan.Elsewhere.
type plansElsewhere struct{ otherNodes }

// HandOver implements plan.Elsewhere.
func (e plansElsewhere) HandOver(ctx context.Context, p plan.Plan, tasks []api.TaskID, back bool) error {
	nodes, err := e.takers(ctx, p.Account, p.Task)
	if back {
		nodes = nil
	}
	if len(tasks) == 0 && err != nil {
		return err
	}
	w := store.Work{Plan: p.ID, Tasks: tasks}
	for _, id := range tasks {
		t, err := e.s.db.Task(ctx, id)
		if err != nil {
			return err
		}
		if t.Repo != nil && t.Repo.Workspace != "" {
			w.Workspaces = append(w.Workspaces, t.Repo.Workspace)
		}
	}
	return e.s.joined.Load().HandOver(ctx, w, nodes, len(tasks) > 0, admin.WorkMove{Plan: p.ID})
}

// workOfNode is the work that a daemon which stops leaves to the next one. It implements service.Tasks.
type workOfNode struct{ s *System }

// Running implements service.Tasks.
func (w workOfNode) Running() int { return w.s.tasks.Running() }

// Ending implements service.Tasks.
func (w workOfNode) Ending() int { return w.s.tasks.Ending() }

// Close implements service.Tasks. What waits for tasks learns first that these do not end.
func (w workOfNode) Close(ctx context.Context) error {
	w.s.plans.Leave()
	w.s.sessions.Leave()
	return w.s.tasks.Close(ctx)
}

// work is what this node works on. It implements fleet.Work.
type work struct{ s *System }

// HandOver implements fleet.Work.
func (w work) HandOver(ctx context.Context) {
	w.s.plans.HandOver(ctx)
	w.s.sessions.HandOver(ctx)
}

// List implements fleet.Work.
func (w work) List(ctx context.Context) (out []admin.WorkMove, err error) {
	add := func(m admin.WorkMove, goes bool, why string) {
		if m.State, m.Reason = admin.MoveRefused, why; goes {
			m.State = admin.MovePending
		}
		out = append(out, m)
	}
	for _, t := range w.s.tasks.Staying(ctx) {
		add(admin.WorkMove{Task: t.ID}, t.Goes, t.Why)
	}
	sessions, err := w.s.sessions.Staying(ctx)
	if err != nil {
		return out, err
	}
	for _, s := range sessions {
		add(admin.WorkMove{Session: s.ID, Key: s.Key}, s.Goes, s.Why)
	}
	plans, err := w.s.plans.Staying(ctx)
	for _, p := range plans {
		add(admin.WorkMove{Plan: p.ID}, p.Goes, p.Why)
	}
	return out, err
}
