package task

import (
	"cmp"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/internal/task/evidence"
	"hortus.dev/internal/task/repo"
)

// Bounds of a request about a repository, in bytes and numbers.
const (
	maxURL       = 4 << 10
	maxVerify    = 8 << 10
	maxDocuments = 8
	maxDocument  = 64 << 10
	maxMutant    = 256 << 10
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

// checkRepo refuses what makes no sense and fills in the defaults.
func (e *Engine) checkRepo(req api.CreateTask) (api.CreateTask, error) {
	invalid := func(format string, args ...any) (api.CreateTask, error) {
		return req, api.Errorf(api.KindInvalid, format, args...)
	}
	if e.cfg.Repositories == nil {
		return req, api.Errorf(api.KindUnsupported, "git is not installed, and work on repositories needs it").
			WithHint("Install git and restart the daemon: hortus daemon stop.")
	}
	r := *req.Repo
	req.Repo = &r
	switch {
	case req.Request == "":
		return invalid("a task on a repository needs a sentence as its request")
	case req.Attempts != 0 || req.InstallTimeoutMS != 0 || req.Keep:
		return invalid("attempts, install timeouts and kept sandboxes cannot be used with a repository")
	case req.Sandbox.Workspace != "":
		return invalid("sandbox.workspace cannot be used with a repository; use repo.workspace")
	case r.Workspace != "" && r.PrepareOnly:
		return invalid("workspace and prepareOnly exclude each other")
	case len(r.Workspace) > api.MaxWorkspaceName:
		return invalid("the name of the workspace has %d bytes; the maximum is %d", len(r.Workspace), api.MaxWorkspaceName)
	case r.NoSetup && r.PrepareOnly:
		return invalid("noSetup and prepareOnly exclude each other")
	case r.URL == "" || len(r.URL) > maxURL || len(r.Ref) > 1<<10:
		return invalid("the repository's url or ref is empty or too long")
	case len(r.Verify) > maxVerify || strings.ContainsRune(r.Verify, 0) || r.Verify != "" && strings.TrimSpace(r.Verify) == "":
		return invalid("the verify command is empty, too long or contains a NUL byte")
	case len(r.Context) > maxDocuments:
		return invalid("too many context documents: %d; the maximum is %d", len(r.Context), maxDocuments)
	case len(r.Mutant) > maxMutant:
		return invalid("the mutant's patch has %d bytes; the maximum is %d", len(r.Mutant), maxMutant)
	case r.Rounds < -1 || r.Rounds > api.MaxRounds:
		return invalid("rounds is %d; it must be between 0 (the default), -1 (never) and %d", r.Rounds, api.MaxRounds)
	case r.Budget.Steps < 0 || r.Budget.Tokens < 0 || r.Budget.CostUSD < 0 || r.Budget.WallMS < 0 || r.Budget.OutputBytes < 0:
		return invalid("a budget is negative")
	case r.Budget.WallMS > api.MaxTTL.Milliseconds():
		return invalid("a wall-clock budget of %d ms exceeds the maximum lifetime of a sandbox (%s)", r.Budget.WallMS, api.MaxTTL)
	case req.RunTimeoutMS < 0 || req.RunTimeoutMS > api.MaxTTL.Milliseconds():
		return invalid("timeout of %d ms is out of range", req.RunTimeoutMS)
	case r.Author.Name == "" || r.Author.Email == "":
		return req, api.Errorf(api.KindInvalid, "a task on a repository needs an author with a name and an e-mail address").
			WithHint("Set --author 'Name <email>', or configure git: git config --global user.name ...")
	}
	if err := checkRepositories(r); err != nil {
		return req, err
	}
	if err := checkDelivery(r); err != nil {
		return req, err
	}
	if err := checkAgent(req); err != nil {
		return req, err
	}
	if err := setFilePolicy(&r.FilePolicy, e.cfg.OffLimits); err != nil {
		return req, err
	}
	for _, d := range r.Context {
		if d.Name == "" || len(d.Name) > 256 || len(d.Text) > maxDocument || !utf8.ValidString(d.Text) {
			return invalid("context document %.64q has no name, is not UTF-8 text or has more than %d bytes", d.Name, maxDocument)
		}
	}
	r.Rounds = cmp.Or(r.Rounds, api.DefaultRounds)
	b, of := &r.Budget, 1
	if r.Best != nil {
		of = r.Best.All() // the defaults are for each candidate
	}
	b.Steps = cmp.Or(b.Steps, of*api.DefaultSteps)
	b.Tokens = cmp.Or(b.Tokens, int64(of)*api.DefaultTokens)
	if b.WallMS == 0 {
		b.WallMS = api.DefaultWall.Milliseconds()
	}
	b.OutputBytes = cmp.Or(b.OutputBytes, int64(of)*api.DefaultOutput)
	if external(req) == "" {
		req.Model = cmp.Or(req.Model, DefaultModel)
	}
	return req, lineup{e.cfg.Model}.check(req)
}

// checkRepositories refuses a list of repositories that makes no sense.
func checkRepositories(r api.RepoTask) error {
	if len(r.Also) == 0 {
		if r.Name != "" {
			return api.Errorf(api.KindInvalid, "repo.name is the directory of one of several repositories; also has no others")
		}
		return nil
	}
	all := r.All()
	if len(all) > api.MaxTaskRepositories {
		return api.Errorf(api.KindInvalid, "%d repositories; the maximum for a task is %d", len(all), api.MaxTaskRepositories)
	}
	seen := map[string]bool{}
	for _, m := range all {
		switch {
		case !api.ValidRepositoryName(m.Name):
			return api.Errorf(api.KindInvalid, "%.80q is not a valid name for the directory of a repository", m.Name).
				WithHint(`use 1 to 63 lower-case letters, digits, ".", "_" and "-", beginning with a letter or a digit`)
		case seen[m.Name]:
			return api.Errorf(api.KindInvalid, "two repositories have the directory %s", m.Name).WithHint("set another name: NAME=%s", m.URL)
		case m.URL == "" || len(m.URL) > maxURL || len(m.Ref) > 1<<10 || len(m.Remote) > maxURL:
			return api.Errorf(api.KindInvalid, "the url, ref or remote of the repository %s is empty or too long", m.Name)
		case m.Remote != "" && !r.Push && !r.MergeRequest:
			return api.Errorf(api.KindInvalid, "the repository %s has a remote without a push", m.Name)
		}
		seen[m.Name] = true
	}
	if r.PrepareOnly {
		return api.Errorf(api.KindInvalid, "prepareOnly is for one repository; also has others")
	}
	return nil
}

// setFilePolicy checks what a request says of files, and puts the globs of the daemon before it.
func setFilePolicy(p *api.FilePolicy, offLimits []string) error {
	if err := p.CheckBounds(); err != nil {
		return err
	}
	if err := p.Check(); err != nil {
		return err
	}
	p.OffLimits = slices.Concat(offLimits, p.OffLimits)
	return nil
}

// repository runs a task on a repository.
func (e *Engine) repository(ctx context.Context, t *api.Task, ms models, from source, r *running) repo.End {
	log := r.log
	t.State = api.TaskRunning
	if err := e.cfg.Store.UpdateTask(context.WithoutCancel(ctx), *t); err != nil {
		return repo.End{Outcome: api.OutcomeFailed, Error: api.AsError(err)}
	}
	if r.told.Count(api.EventTaskStarted) == 0 {
		log.Emit(ctx, api.EventTaskStarted, struct{}{})
	}
	dir := e.dir(t.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return repo.End{Outcome: api.OutcomeFailed, Error: api.Errorf(api.KindInternal, "create the directory of a task: %w", err)}
	}
	var before []repo.Earlier
	for _, old := range from.earlier {
		before = append(before, repo.Earlier{Task: old, Dir: e.dir(old.ID)})
	}
	return e.cfg.Repositories.Run(ctx, r.journaled(repo.Job{
		Known:   newPupil(e.cfg, t, log).onRepository(),
		Earlier: before, Candidates: ms.candidates, Turn: from.turn,
		Task: *t, Agent: external(t.Create), Model: ms.coder, Large: ms.large, Small: ms.small, Dir: dir, Emit: log,
		Save: func(ctx context.Context, r api.RepoResult) error {
			t.Repo = &r
			return e.cfg.Store.UpdateTask(ctx, *t)
		},
	}))
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
	dir := e.dir(t.ID)
	if candidate != 0 {
		if b := t.Create.Repo.Best; b == nil || candidate < 0 || candidate > b.All() {
			return nil, api.Errorf(api.KindNotFound, "task %s has no candidate %d", t.ID, candidate)
		}
		dir = repo.CandidateDir(dir, candidate)
	}
	f, err := os.Open(repo.TranscriptPath(dir))
	if err != nil {
		return nil, api.Errorf(api.KindNotFound, "task %s has no transcript: no agent started, or it was garbage collected", t.ID)
	}
	return f, nil
}

// GateOutput opens the whole output of one gate.
func (e *Engine) GateOutput(ctx context.Context, id api.TaskID, round int, which string) (io.ReadCloser, error) {
	t, err := e.onRepository(ctx, id)
	if err != nil {
		return nil, err
	}
	return evidence.Output(e.dir(t.ID), round, which)
}
