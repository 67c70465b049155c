package task

import (
	"context"
	"io"
	"os"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/task/gate"
	"hortus.dev/internal/task/repo"
)

// Repositories runs the tasks that are about a repository.
type Repositories interface {
	Run(ctx context.Context, job repo.Job) repo.End
	// Salvage keeps what a task had written whose daemon died.
	Salvage(ctx context.Context, t api.Task) api.RepoResult
	// Deliver brings the result of a task that is done to its reviewers.
	Deliver(ctx context.Context, job repo.Job) (api.RepoResult, error)
	// Adopt makes a task the owner of the workspace of another one, whose it must be.
	Adopt(ctx context.Context, id api.WorkspaceID, from, to api.TaskID) error
	// Diff returns the patch of a task's result, of one round or of the last (0), and of one
	// of several repositories or of all ("").
	Diff(ctx context.Context, t api.Task, round int, repository string) (io.ReadCloser, error)
	// Bundle returns the task's branch as a git bundle, of one of several repositories.
	Bundle(ctx context.Context, t api.Task, repository string) (io.ReadCloser, error)
}

// repository runs a task on a repository.
func (e *Engine) repository(ctx context.Context, t *api.Task, ms models, from source, r *activeTask) repo.End {
	log, run := r.log, r.run
	if end, ok := e.begin(ctx, t, r); !ok {
		return end
	}
	if r.run.Earlier(api.EventTaskStarted) == 0 {
		log.Emit(ctx, api.EventTaskStarted, struct{}{})
	}
	dir := e.folders.of(t.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return repo.End{Outcome: api.OutcomeFailed, Error: api.Errorf(api.KindInternal, "create the directory of a task: %w", err)}
	}
	var before []repo.EarlierTask
	for _, old := range from.earlier {
		before = append(before, repo.EarlierTask{Task: old, Dir: e.folders.of(old.ID)})
	}
	return e.cfg.Repositories.Run(ctx, repo.Job{
		Known:   newTeacher(e.cfg, t, log).onRepository(),
		Earlier: before, Candidates: ms.candidates, Turn: from.turn,
		Task: *t, Agent: External(t.Create), Model: ms.coder, Large: ms.large, Small: ms.small, Dir: dir, Emit: log, Run: r.run, Leaves: e.leaves(*t, r.run),
		Save: func(ctx context.Context, r api.RepoResult) error {
			if run.Left() {
				return nil // what another owner continues is as it was stored
			}
			t.Repo = &r
			return e.cfg.Store.UpdateTask(ctx, *t)
		},
	})
}

// worked puts the end of a task on a repository into its record.
func worked(t *api.Task, end repo.End) {
	t.Outcome, t.Diagnosis, t.Question = end.Outcome, end.Diagnosis, end.Question
	t.Error, t.Usage, t.Receipt, t.Value = end.Error, end.Usage, end.Receipt, end.Value
	t.Repo = &end.Result
}

// onRepository reads a task that is about a repository.
func (e *Engine) onRepository(ctx context.Context, id api.TaskID) (api.Task, error) {
	t, err := e.cfg.Store.Task(ctx, id)
	if err == nil && t.Create.Repo == nil {
		err = api.Errorf(api.KindConflict, "task %s is not on a repository", t.ID).WithHint("To see it: hortus task show %s.", t.ID)
	}
	return t, err
}

// Diff returns the patch of a task's result, or of one of its rounds, in all repositories or in one.
func (e *Engine) Diff(ctx context.Context, id api.TaskID, round int, repository string) (io.ReadCloser, error) {
	t, err := e.onRepository(ctx, id)
	if err != nil {
		return nil, err
	}
	return e.cfg.Repositories.Diff(ctx, t, round, repository)
}

// Bundle returns a task's branch as a git bundle, of the one repository that is named if there are several.
func (e *Engine) Bundle(ctx context.Context, id api.TaskID, repository string) (io.ReadCloser, error) {
	t, err := e.onRepository(ctx, id)
	if err != nil {
		return nil, err
	}
	return e.cfg.Repositories.Bundle(ctx, t, repository)
}

// Transcript opens what an agent and its tools said, as JSON lines: of the only one or of the chosen candidate (0), or of
// a candidate by its number.
func (e *Engine) Transcript(ctx context.Context, id api.TaskID, candidate int) (io.ReadCloser, error) {
	t, err := e.onRepository(ctx, id)
	if err != nil {
		return nil, err
	}
	dir := e.folders.of(t.ID)
	if candidate != 0 {
		if b := t.Create.Repo.Best; b == nil || candidate < 0 || candidate > b.All() {
			return nil, api.Errorf(api.KindNotFound, "task %s has no candidate %d", t.ID, candidate)
		}
		dir = repo.CandidateDir(dir, candidate)
	}
	f, err := os.Open(repo.TranscriptPath(dir))
	if err != nil {
		err = api.Errorf(api.KindNotFound, "task %s has no transcript: no agent started, or it was garbage collected", t.ID)
		return nil, e.away(ctx, t, "the transcript", err)
	}
	return f, nil
}

// GateOutput opens the whole output of one gate.
func (e *Engine) GateOutput(ctx context.Context, id api.TaskID, round int, which string) (io.ReadCloser, error) {
	t, err := e.onRepository(ctx, id)
	if err != nil {
		return nil, err
	}
	r, err := gate.OpenOutput(e.folders.of(t.ID), round, which)
	return r, e.away(ctx, t, "the output of this gate", err)
}

// away is the error for a file of a task that is not here: another node may have it, on which the task worked. It is err if none did.
func (e *Engine) away(ctx context.Context, t api.Task, what string, err error) error {
	if api.KindOf(err) != api.KindNotFound {
		return err
	}
	node := ""
	if m := e.moved(ctx, t.Owner); m != nil {
		node = m.From
	} else if n := len(t.Moves); n > 0 {
		node = t.Moves[n-1].From
	}
	if node == "" {
		return err
	}
	return api.Errorf(api.KindNotFound, "%s of task %s is not here: it is on the disk of node %s, or was removed", what, t.ID, node).
		WithHint("if node %s has ended, start its daemon again: hortus fleet ls", node)
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
	ctx, done, err := e.active.deliver(ctx, t.ID)
	if err != nil {
		return t, err
	}
	defer done()
	// Read again: a delivery that ended in between has left its result there.
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
	job := repo.Job{Task: t, Emit: e.emitter(t), Save: func(ctx context.Context, r api.RepoResult) error {
		t.Repo = &r
		return e.cfg.Store.UpdateTask(ctx, t)
	}}
	job.Task.Create.Repo = &how
	taken := t.Repo.Taken()
	_, err = e.cfg.Repositories.Deliver(ctx, job)
	if err == nil && !taken {
		e.teach(ctx, t)
	}
	return t, err
}

// Applied records that a person took the result of a verified task.
func (e *Engine) Applied(ctx context.Context, id api.TaskID) (api.Task, error) {
	t, err := e.onRepository(ctx, id)
	if err != nil {
		return t, err
	}
	ctx, done, err := e.active.deliver(ctx, t.ID)
	if err != nil {
		return t, err
	}
	defer done()
	if t, err = e.onRepository(ctx, id); err != nil {
		return t, err
	}
	if t.State != api.TaskDone || t.Outcome != api.OutcomeVerified || t.Repo == nil || t.Repo.Head == "" {
		return t, api.Errorf(api.KindConflict, "task %s has no verified result (%s)", t.ID, t.Outcome).WithHint("hortus task show %s", t.ID)
	}
	taken, res := t.Repo.Taken(), *t.Repo
	res.Applied, t.Repo = true, &res
	if err := e.cfg.Store.UpdateTask(ctx, t); err != nil {
		return t, err
	}
	if !taken {
		e.teach(ctx, t)
	}
	return t, nil
}

// teach stores what a task teaches whose result was taken after its end, which counted the lessons that it was given.
func (e *Engine) teach(ctx context.Context, t api.Task) {
	t.Lessons = nil
	newTeacher(e.cfg, &t, e.emitter(t)).learn(ctx, e.cfg.Repositories)
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
	if req.Stacked {
		if how.Item == nil || len(how.Item.Items) == 0 {
			return how, api.Errorf(api.KindInvalid, "task %s is not the result of a plan: only the items of a plan are stacked", t.ID).
				WithHint("Leave out --stacked, or deliver a plan: hortus plan deliver ID --mr --stacked.")
		}
		if !how.MergeRequest {
			return how, api.Errorf(api.KindInvalid, "stacked has no effect without a merge request").WithHint("Add --mr.")
		}
		it := *how.Item
		it.Stacked, how.Item = true, &it
	}
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
