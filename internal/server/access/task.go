package access

import (
	"context"
	"io"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/sandbox/quota"
)

// Engine is what runs and keeps tasks. Where it takes an account, those of others
// are left out; "" means everybody's.
type Engine interface {
	Create(ctx context.Context, req api.CreateTask) (api.Task, error)
	Get(ctx context.Context, id api.TaskID) (api.Task, error)
	// Page returns the newest first, without tasks on repositories if programs is set.
	Page(ctx context.Context, account string, programs bool, p api.PageRequest) (rows []api.Task, next string, err error)
	Find(ctx context.Context, account, prefix string) (api.TaskID, error)
	Stats(ctx context.Context, account string, since time.Time) (admin.TaskStats, error)
	Cancel(ctx context.Context, id api.TaskID) (api.Task, error)
	Output(ctx context.Context, id api.TaskID, attempt int, stream string) (io.ReadCloser, error)
	Diff(ctx context.Context, id api.TaskID, round int, repository string) (io.ReadCloser, error)
	Deliver(ctx context.Context, id api.TaskID, req api.DeliverTask) (api.Task, error)
	Applied(ctx context.Context, id api.TaskID) (api.Task, error)
	Reply(ctx context.Context, id api.TaskID, key api.KeyID, req api.ReplyTask) (api.Task, error)
	Bundle(ctx context.Context, id api.TaskID, repository string) (io.ReadCloser, error)
	Transcript(ctx context.Context, id api.TaskID, candidate int) (io.ReadCloser, error)
	GateOutput(ctx context.Context, id api.TaskID, round int, which string) (io.ReadCloser, error)
}

// Tasks guards the engine.
type Tasks struct {
	e        Engine
	backends quota.Isolator
	rates    *quota.Rates
}

// NewTasks guards an engine whose sandboxes are those of backends, and bounds how often a
// key creates tasks.
func NewTasks(e Engine, backends quota.Isolator, rates *quota.Rates) *Tasks {
	return &Tasks{e, backends, rates}
}

// Create makes a task of the caller's account. What works for it later is the
// caller's too: the context's principal goes with it.
func (t *Tasks) Create(ctx context.Context, req api.CreateTask) (api.Task, error) {
	p, err := caller(ctx)
	if err != nil {
		return api.Task{}, err
	}
	if err := t.check(ctx, p, req); err != nil {
		return api.Task{}, err
	}
	if err := t.rates.Create(p, 1); err != nil {
		return api.Task{}, err
	}
	req.Sandbox.Account, req.Sandbox.Key = p.Account, p.Key
	if req.Sandbox.TTLMS != 0 {
		if req.Sandbox.TTLMS, err = quota.TTL(p, req.Sandbox.TTLMS); err != nil {
			return api.Task{}, err
		}
	}
	return t.e.Create(ctx, req)
}

// check refuses what is not for this caller.
func (t *Tasks) check(ctx context.Context, p api.Principal, req api.CreateTask) error {
	if err := t.checkAgain(ctx, p, req); err != nil {
		return err
	}
	if req.Repo != nil && req.Repo.IsolationFrom != "" {
		return api.Errorf(api.KindInvalid, "repo.isolationFrom is set by the daemon; it cannot be requested")
	}
	if req.Repo != nil && p.Key != "" {
		for _, r := range req.Repo.All() {
			if !isRemote(r.URL) || r.Remote != "" && !isRemote(r.Remote) {
				return api.Errorf(api.KindDenied, "the repository %.100q may be a directory on the daemon's machine, which an API key cannot use", r.URL).
					WithHint("write it as https://HOST/PATH or ssh://HOST/PATH, or use the daemon's own socket on its machine")
			}
		}
	}
	return nil
}

// checkAgain refuses what is not for a caller who continues work of the own account. Directories of the daemon's machine that the work was begun
// with are for the operator's own browser, too.
func (t *Tasks) checkAgain(ctx context.Context, p api.Principal, req api.CreateTask) error {
	m := req.Models
	if err := checkModels(p, req.Model, m.Planner, m.Coder, m.Debugger, m.Large, m.Small); err != nil {
		return err
	}
	if req.Repo != nil && req.Repo.Best != nil {
		for _, v := range req.Repo.Best.Vary {
			if err := checkModels(p, v.Model); err != nil {
				return err
			}
		}
	}
	if req.Record != "" && p.Key != "" {
		return api.Errorf(api.KindDenied, "a recording is a file on the daemon's machine, which an API key cannot use").
			WithHint("use the daemon's own socket on its machine")
	}
	if err := quota.CheckIsolation(ctx, p, t.backends, req.Sandbox.Isolation); err != nil {
		return err
	}
	if req.Repo != nil && p.Role != api.RoleAdmin {
		// It is fetched and its result is pushed with the operator's credentials.
		return denied("a task on a repository")
	}
	if req.Replay != nil {
		if _, err := t.get(ctx, p, req.Replay.Task); err != nil {
			return err
		}
	}
	return nil
}

// isRemote reports whether the address of a repository cannot be a directory of this machine.
func isRemote(url string) bool {
	return strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "http://") || strings.HasPrefix(url, "ssh://")
}

func (t *Tasks) get(ctx context.Context, p api.Principal, id api.TaskID) (api.Task, error) {
	row, err := t.e.Get(ctx, id)
	if err == nil && !p.May(row.Account) {
		err = notFound("task", string(id))
	}
	if err != nil {
		return api.Task{}, err
	}
	return row, nil
}

// may reports whether the caller may see and use a task.
func (t *Tasks) may(ctx context.Context, id api.TaskID) (api.Principal, error) {
	p, err := caller(ctx)
	if err != nil || p.Role == api.RoleAdmin {
		return p, err
	}
	_, err = t.get(ctx, p, id)
	return p, err
}

// allowed is may for calls that take no notice of who calls.
func (t *Tasks) allowed(ctx context.Context, id api.TaskID) error {
	_, err := t.may(ctx, id)
	return err
}

// scope returns the account that the caller's lists are limited to; "" means all.
func scope(p api.Principal) string {
	if p.Role == api.RoleAdmin {
		return ""
	}
	return p.Account
}

// Get returns a task of the caller's.
func (t *Tasks) Get(ctx context.Context, id api.TaskID) (api.Task, error) {
	p, err := caller(ctx)
	if err != nil {
		return api.Task{}, err
	}
	return t.get(ctx, p, id)
}

// Page returns one page of the caller's tasks, without those on repositories if programs
// is set.
func (t *Tasks) Page(ctx context.Context, programs bool, page api.PageRequest) ([]api.Task, string, error) {
	p, err := caller(ctx)
	if err != nil {
		return nil, "", err
	}
	return t.e.Page(ctx, scope(p), programs, page)
}

// Find returns the one of the caller's tasks that a prefix stands for.
func (t *Tasks) Find(ctx context.Context, prefix string) (api.TaskID, error) {
	p, err := caller(ctx)
	if err != nil {
		return "", err
	}
	return t.e.Find(ctx, scope(p), prefix)
}

// Stats returns statistics of the caller's tasks.
func (t *Tasks) Stats(ctx context.Context, since time.Time) (admin.TaskStats, error) {
	p, err := caller(ctx)
	if err != nil {
		return admin.TaskStats{}, err
	}
	return t.e.Stats(ctx, scope(p), since)
}

// Cancel stops a task.
func (t *Tasks) Cancel(ctx context.Context, id api.TaskID) (api.Task, error) {
	return ifAllowed(t.allowed(ctx, id), func() (api.Task, error) { return t.e.Cancel(ctx, id) })
}

// Output returns what an attempt printed.
func (t *Tasks) Output(ctx context.Context, id api.TaskID, attempt int, stream string) (io.ReadCloser, error) {
	return ifAllowed(t.allowed(ctx, id), func() (io.ReadCloser, error) { return t.e.Output(ctx, id, attempt, stream) })
}

// Diff returns a patch.
func (t *Tasks) Diff(ctx context.Context, id api.TaskID, round int, repository string) (io.ReadCloser, error) {
	return ifAllowed(t.allowed(ctx, id), func() (io.ReadCloser, error) { return t.e.Diff(ctx, id, round, repository) })
}

// Deliver pushes a result, with the operator's access to its forge.
func (t *Tasks) Deliver(ctx context.Context, id api.TaskID, req api.DeliverTask) (api.Task, error) {
	p, err := t.may(ctx, id)
	if err != nil {
		return api.Task{}, err
	}
	if p.Role != api.RoleAdmin {
		return api.Task{}, denied("a delivery")
	}
	return t.e.Deliver(ctx, id, req)
}

// Applied records that a result was taken.
func (t *Tasks) Applied(ctx context.Context, id api.TaskID) (api.Task, error) {
	return ifAllowed(t.allowed(ctx, id), func() (api.Task, error) { return t.e.Applied(ctx, id) })
}

// Reply continues a task of the caller's own account, with the rights that creating it
// takes.
func (t *Tasks) Reply(ctx context.Context, id api.TaskID, req api.ReplyTask) (api.Task, error) {
	p, err := caller(ctx)
	if err != nil {
		return api.Task{}, err
	}
	row, err := t.get(ctx, p, id)
	if err != nil {
		return api.Task{}, err
	}
	if row.Account != p.Account {
		return api.Task{}, api.Errorf(api.KindDenied, "task %s belongs to another account; only that account can reply", id).
			WithHint("use an API key of that account")
	}
	again := row.Create
	again.Record = ""
	if err := t.checkAgain(ctx, p, again); err != nil {
		return api.Task{}, err
	}
	if ttl := again.Sandbox.TTLMS; ttl != 0 {
		if _, err := quota.TTL(p, ttl); err != nil {
			return api.Task{}, err
		}
	}
	if err := t.rates.Create(p, 1); err != nil {
		return api.Task{}, err
	}
	return t.e.Reply(ctx, id, p.Key, req)
}

// Bundle returns the commits.
func (t *Tasks) Bundle(ctx context.Context, id api.TaskID, repository string) (io.ReadCloser, error) {
	return ifAllowed(t.allowed(ctx, id), func() (io.ReadCloser, error) { return t.e.Bundle(ctx, id, repository) })
}

// Transcript returns what agent and model said.
func (t *Tasks) Transcript(ctx context.Context, id api.TaskID, candidate int) (io.ReadCloser, error) {
	return ifAllowed(t.allowed(ctx, id), func() (io.ReadCloser, error) { return t.e.Transcript(ctx, id, candidate) })
}

// GateOutput returns what a gate printed.
func (t *Tasks) GateOutput(ctx context.Context, id api.TaskID, round int, which string) (io.ReadCloser, error) {
	return ifAllowed(t.allowed(ctx, id), func() (io.ReadCloser, error) { return t.e.GateOutput(ctx, id, round, which) })
}

// RolesOf asks the roles of the pipeline.
type RolesOf interface {
	Plan(ctx context.Context, model string, req api.PlanRequest) (api.ExecutionPlan, error)
	Code(ctx context.Context, model string, plan api.ExecutionPlan) (api.CodeArtifact, error)
	Debug(ctx context.Context, model string, req api.DebugRequest) (api.Diagnosis, error)
}

// Roles guards the roles.
type Roles struct{ r RolesOf }

// NewRoles guards them.
func NewRoles(r RolesOf) *Roles { return &Roles{r} }

// checkRole refuses callers without a principal, and models that are files of the host.
func checkRole(ctx context.Context, model string) error {
	p, err := caller(ctx)
	if err == nil {
		err = checkModels(p, model)
	}
	return err
}

// Plan asks the Planner.
func (r *Roles) Plan(ctx context.Context, model string, req api.PlanRequest) (api.ExecutionPlan, error) {
	return ifAllowed(checkRole(ctx, model), func() (api.ExecutionPlan, error) { return r.r.Plan(ctx, model, req) })
}

// Code asks the Coder.
func (r *Roles) Code(ctx context.Context, model string, plan api.ExecutionPlan) (api.CodeArtifact, error) {
	return ifAllowed(checkRole(ctx, model), func() (api.CodeArtifact, error) { return r.r.Code(ctx, model, plan) })
}

// Debug asks the Debugger.
func (r *Roles) Debug(ctx context.Context, model string, req api.DebugRequest) (api.Diagnosis, error) {
	return ifAllowed(checkRole(ctx, model), func() (api.Diagnosis, error) { return r.r.Debug(ctx, model, req) })
}

// LessonService keeps what the tasks of accounts taught; "" is all accounts, in RemoveLesson the operator's own.
type LessonService interface {
	LessonPage(ctx context.Context, account, scope string, p api.PageRequest) ([]api.Lesson, string, error)
	FindLesson(ctx context.Context, account, prefix string) (api.Lesson, error)
	RemoveLesson(ctx context.Context, account, id string) (api.Lesson, error)
}

// Lessons guards lessons. Users have those of their own account, admins all.
type Lessons struct{ s LessonService }

// NewLessons guards lessons.
func NewLessons(s LessonService) *Lessons { return &Lessons{s} }

// Page returns one page of the caller's lessons, the newest first.
func (l *Lessons) Page(ctx context.Context, of string, page api.PageRequest) ([]api.Lesson, string, error) {
	p, err := caller(ctx)
	if err != nil {
		return nil, "", err
	}
	return l.s.LessonPage(ctx, scope(p), of, page)
}

// Find returns a lesson of the caller's.
func (l *Lessons) Find(ctx context.Context, prefix string) (api.Lesson, error) {
	p, err := caller(ctx)
	if err != nil {
		return api.Lesson{}, err
	}
	return l.s.FindLesson(ctx, scope(p), prefix)
}

// Remove removes a lesson of the caller's.
func (l *Lessons) Remove(ctx context.Context, prefix string) (api.Lesson, error) {
	p, err := caller(ctx)
	if err != nil {
		return api.Lesson{}, err
	}
	found, err := l.s.FindLesson(ctx, scope(p), prefix)
	if err != nil {
		return found, err
	}
	return l.s.RemoveLesson(ctx, found.Account, found.ID)
}
