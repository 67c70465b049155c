package task

import (
	"context"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/task/repo"
)

// checkDelivery refuses a delivery that makes no sense.
func checkDelivery(r api.RepoTask) error {
	switch {
	case len(r.Remote) > maxURL || len(r.Target) > 1<<10:
		return api.Errorf(api.KindInvalid, "the remote or the target is too long")
	case (r.Target != "" || r.Draft) && !r.MergeRequest:
		return api.Errorf(api.KindInvalid, "a target or a draft is set without a merge request")
	case r.Remote != "" && !r.Push && !r.MergeRequest:
		return api.Errorf(api.KindInvalid, "a remote is set without a push")
	}
	return nil
}

// Deliver delivers the result of a verified task, again or for the first time,
// and gives the task when that ended. What kept the delivery from happening is in the
// task. An error means that none was tried: KindConflict for a task that is not
// verified or is being delivered, KindInvalid for a request that makes no sense.
func (e *Engine) Deliver(ctx context.Context, id api.TaskID, req api.DeliverTask) (api.Task, error) {
	t, err := e.onRepository(ctx, id)
	if err != nil {
		return t, err
	}
	ctx, done, err := e.delivering(ctx, t.ID)
	if err != nil {
		return t, err
	}
	defer done()
	// Once more: a delivery that ended in between has left its result there.
	if t, err = e.onRepository(ctx, id); err != nil {
		return t, err
	}
	how, err := delivery(t, req)
	if err != nil {
		return t, err
	}
	if e.cfg.Repositories == nil {
		return t, api.Errorf(api.KindUnsupported, "git is not installed, and a delivery needs it").
			WithHint("Install git and restart the daemon: hortus daemon stop.")
	}
	job := repo.Job{Task: t, Emit: e.emitter(t.ID), Save: func(ctx context.Context, r api.RepoResult) error {
		t.Repo = &r
		return e.cfg.Store.UpdateTask(ctx, t)
	}}
	job.Task.Create.Repo = &how
	_, err = e.cfg.Repositories.Deliver(ctx, job)
	return t, err
}

// delivery is how the result of a task is to be delivered.
func delivery(t api.Task, req api.DeliverTask) (api.RepoTask, error) {
	how := *t.Create.Repo
	switch {
	case t.State != api.TaskDone:
		return how, api.Errorf(api.KindConflict, "task %s is still running: it delivers its result itself", t.ID).WithHint("hortus task show %s", t.ID)
	case t.Outcome != api.OutcomeVerified || t.Repo == nil || t.Repo.Head == "":
		return how, api.Errorf(api.KindConflict, "task %s has no verified result (%s): only verified results are delivered", t.ID, t.Outcome).
			WithHint("To use its commits: hortus task apply %s --branch.", t.ID)
	}
	if req.Push || req.MergeRequest {
		how.Push, how.MergeRequest = true, req.MergeRequest
		if !how.MergeRequest {
			how.Target, how.Draft = "", false
		}
	}
	if req.Remote != "" && len(how.Also) > 0 {
		return how, api.Errorf(api.KindInvalid, "task %s has several repositories, each of which is delivered to its own remote", t.ID)
	}
	if err := setRemotes(&how, req.Remotes); err != nil {
		return how, err
	}
	if req.Remote != "" {
		how.Remote = req.Remote
	}
	if req.Target != "" {
		how.Target = req.Target
	}
	how.Draft = how.Draft || req.Draft
	if err := checkDelivery(how); err != nil {
		return how, err
	}
	if !how.Push && !how.MergeRequest {
		return how, api.Errorf(api.KindInvalid, "neither task %s nor this command has a delivery", t.ID).
			WithHint("Use --push for the branch, or --mr for a merge request too.")
	}
	return how, nil
}

// setRemotes sets the remotes of several repositories.
func setRemotes(how *api.RepoTask, remotes map[string]string) error {
	how.Also = slices.Clone(how.Also)
	for name, remote := range remotes {
		i := slices.IndexFunc(how.Also, func(r api.TaskRepository) bool { return r.Name == name })
		switch {
		case len(remote) > maxURL:
			return api.Errorf(api.KindInvalid, "the remote of %.80q is too long", name)
		case len(how.Also) > 0 && name == how.Name:
			how.Remote = remote
		case i >= 0:
			how.Also[i].Remote = remote
		default:
			return api.Errorf(api.KindInvalid, "the task has no repository %.80q to set a remote of", name)
		}
	}
	return nil
}

// delivering makes a delivery the only one of its task, ended and waited for by
// Close.
func (e *Engine) delivering(ctx context.Context, id api.TaskID) (context.Context, func(), error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ctx, nil, api.Errorf(api.KindUnavailable, "the task engine is closed").WithHint("Run the command again; a new daemon starts automatically.")
	}
	if e.deliveries[id] != nil {
		return ctx, nil, api.Errorf(api.KindConflict, "task %s is already being delivered", id).WithHint("To see its result: hortus task show %s.", id)
	}
	ctx, cancel := context.WithCancel(api.WithTask(ctx, id))
	e.deliveries[id] = cancel
	e.wg.Add(1)
	return ctx, func() {
		cancel()
		e.mu.Lock()
		delete(e.deliveries, id)
		e.mu.Unlock()
		e.wg.Done()
	}, nil
}
