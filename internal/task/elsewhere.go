package task

import (
	"cmp"
	"context"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/task/journal"
)

// stays says why a task never continues on another node while its own one is there; empty if it can.
func stays(t api.Task, run *journal.Run) string {
	r := t.Create.Repo
	switch {
	case t.Create.Keep:
		return "its sandbox is kept"
	case t.Create.Record != "":
		return "it is recorded"
	case !run.Records():
		return "its steps are not recorded"
	case t.Session != "":
		return "it is a turn of session " + string(t.Session)
	case r == nil:
		return ""
	case r.Best != nil:
		return "it has several candidates"
	case External(t.Create) != "":
		return "its agent is a program"
	case r.Item != nil && r.Item.Check != "":
		return "it is a check of plan " + string(r.Item.Plan)
	}
	return ""
}

// leaves returns what reports whether another node is to continue a task; nil if none can.
func (e *Engine) leaves(t api.Task, run *journal.Run) func(context.Context) bool {
	if e.cfg.Elsewhere == nil || stays(t, run) != "" {
		return nil
	}
	return func(ctx context.Context) bool { return e.cfg.Elsewhere.Leaves(ctx, t) == nil }
}

// handOver gives a task that has stopped here to another node. Nothing of it is stored here any more. A plan gives its items away with itself.
func (e *Engine) handOver(ctx context.Context, t api.Task) {
	if t.Create.Repo != nil && t.Create.Repo.Item != nil {
		return
	}
	if err := e.cfg.Elsewhere.HandOver(context.WithoutCancel(ctx), t); err != nil {
		// The row stays this owner's and unfinished; who takes its work over continues the task.
		e.cfg.Logger.Error("hand a task over to another node", "task", t.ID, "err", err)
	}
}

// Staying is a task of a node that drains.
type Staying struct {
	ID api.TaskID
	// Why is what it waits for if it Goes to another node, and else why it stays.
	Why  string
	Goes bool
}

// Staying lists the tasks that run here, without turns of sessions and tasks of plans.
func (e *Engine) Staying(ctx context.Context) (out []Staying) {
	for _, r := range e.active.list() {
		t := r.task
		if t.Session != "" || t.Create.Repo != nil && t.Create.Repo.Item != nil {
			continue
		}
		st := Staying{ID: t.ID, Why: stays(t, r.run)}
		if st.Why == "" && e.cfg.Elsewhere != nil {
			if err := e.cfg.Elsewhere.Leaves(ctx, t); err != nil {
				st.Why = err.Error()
			} else {
				st.Goes, st.Why = true, "its next step"
				if t.Create.Repo != nil {
					st.Why = "the end of a round"
				}
			}
		}
		out = append(out, st)
	}
	slices.SortFunc(out, func(a, b Staying) int { return cmp.Compare(a.ID, b.ID) })
	return out
}
