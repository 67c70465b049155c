package task

import (
	"cmp"
	"context"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/task/repo"
	"hortus.dev/internal/task/workstream"
)

// Claims lists which files the tasks of an account change now that belong to no plan. A session is one of them while its turn runs.
type Claims struct {
	Tasks interface {
		UnfinishedTasks(ctx context.Context, notOwner api.OwnerID) ([]api.Task, error)
	}
	// Key names a repository: the same for all spellings of its address; empty for one that nobody else can change.
	Key func(url string) string
	// Session returns the key of a session.
	Session func(ctx context.Context, id api.SessionID) (string, error)
}

// Claims implements workstream.Source.
func (c Claims) Claims(ctx context.Context, account string) (out []workstream.Claim, err error) {
	all, err := c.Tasks.UnfinishedTasks(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if t.Account != account {
			continue
		}
		claims, err := c.of(ctx, t)
		if err != nil {
			return nil, err
		}
		out = append(out, claims...)
	}
	return out, nil
}

// of are the claims of one task, in each of its repositories. An item of a plan has none of its own.
func (c Claims) of(ctx context.Context, t api.Task) (out []workstream.Claim, err error) {
	r := t.Create.Repo
	if r == nil || r.Item != nil || r.NoAgent() {
		return nil, nil
	}
	title, _, _ := strings.Cut(strings.TrimSpace(t.Create.Request), "\n")
	w := api.Workstream{Kind: api.WorkstreamTask, ID: string(t.ID), Title: title, Touches: r.FilePolicy.Writable, Waits: t.State == api.TaskPending, Since: t.CreatedAt}
	if t.Session != "" {
		w.Kind, w.ID = api.WorkstreamSession, string(t.Session)
		if c.Session != nil {
			if w.ID, err = c.Session(ctx, t.Session); err != nil {
				return nil, err
			}
		}
	}
	if len(w.Touches) == 0 || len(r.Also) > 0 { // globs of several repositories are about the workspace: each of them may be meant
		w.Touches = workstream.Everything
	}
	for _, m := range r.All() {
		claim := workstream.Claim{Workstream: w, Key: c.Key(m.URL), Allows: policyOf(t) == api.OverlapAllow}
		if claim.Repository = m.URL; claim.Key != "" {
			out = append(out, claim)
		}
	}
	return out, nil
}

// policyOf is what a task does about others who change the same files.
func policyOf(t api.Task) api.Overlap { return cmp.Or(t.Create.Repo.Overlap, api.OverlapAllow) }

// begin makes a task on a repository one that runs: at once, or after those who change the same files, as it asks for. ok is false if it
// ended first.
func (e *Engine) begin(ctx context.Context, t *api.Task, r *activeTask) (end repo.End, ok bool) {
	begin := func() error {
		if t.State == api.TaskPending {
			t.StartedAt = e.cfg.Now().UTC()
		}
		t.State = api.TaskRunning
		return e.cfg.Store.UpdateTask(context.WithoutCancel(ctx), *t)
	}
	failed := func(err error) (repo.End, bool) {
		if ctx.Err() != nil {
			return repo.End{Outcome: api.OutcomeCanceled, Receipt: &api.Receipt{Completed: []string{}, Skipped: []string{}}}, false
		}
		return repo.End{Outcome: api.OutcomeFailed, Error: api.AsError(err)}, false
	}
	var claims []workstream.Claim
	var err error
	if e.cfg.Workstreams != nil && t.State == api.TaskPending { // one that runs already continues after its daemon ended
		if claims, err = e.cfg.Claims.of(ctx, *t); err != nil {
			return failed(err)
		}
	}
	if len(claims) == 0 {
		if err := begin(); err != nil {
			return failed(err)
		}
		return end, true
	}
	told := r.run.Earlier(api.EventOverlap) > 0
	for {
		changed := e.cfg.Workstreams.Changed()
		with, entered, err := e.cfg.Workstreams.Enter(ctx, t.Account, claims, policyOf(*t), begin)
		if err != nil {
			return failed(err)
		}
		if len(with) > 0 && !told {
			told = true
			ev := api.OverlapEvent{Waits: !entered}
			for _, c := range with[:min(len(with), maxOverlaps)] {
				ev.With = append(ev.With, c.Workstream)
			}
			r.log.Emit(ctx, api.EventOverlap, ev)
		}
		if entered {
			return end, true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return failed(ctx.Err())
		}
	}
}

// maxOverlaps bounds how many others an event names.
const maxOverlaps = 20
