package repo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/tool"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/contest"
	"hortus.dev/internal/task/durable"
	"hortus.dev/internal/task/evidence"
	"hortus.dev/internal/task/gate"
	"hortus.dev/internal/task/gate/report"
	"hortus.dev/internal/task/ledger"
	"hortus.dev/internal/task/recall"
	"hortus.dev/internal/task/seat"
)

// Candidate is one of several agents of a task, with what it needs.
type Candidate struct {
	api.Variant
	// Agent, Model and Large are as in [Job].
	Agent               string
	Model, Large, Small model.Model
	// ModelName is the model of a program.
	ModelName string
}

// CandidateDir is the folder of a candidate, below that of its task.
func CandidateDir(dir string, n int) string {
	return filepath.Join(dir, fmt.Sprintf("candidate-%d", n))
}

// candidateBranch is the branch of a candidate, until it is chosen or removed.
func candidateBranch(id api.TaskID, n int) string {
	return fmt.Sprintf("%s-candidate-%d", Branch(id), n)
}

// entrant is a candidate: an attempt with its own ledger and its own part of the journal. It implements contest.Entrant.
type entrant struct {
	*attempt
	of *field
	n  int
	// parent is the one whose work it continues; nil for none.
	parent *entrant
	// end is how it ended, and ms how long it took.
	end End
	ms  int64
}

// entrant begins the candidate of a row.
func (f *field) entrant(row api.Candidate, job Job) *entrant {
	w, n, one := f.main, row.N, job.Candidates[(row.N-1)%len(job.Candidates)]
	res := w.res
	res.Branch, res.Repositories, res.Candidates = candidateBranch(w.task.ID, n), slices.Clone(w.res.Repositories), nil
	res.Workspace = api.WorkspaceID(row.Workspace) // of a task that goes on: it is this one's, also if nothing is done with it
	e := &entrant{of: f, n: n, attempt: &attempt{
		project: w.project, candidate: n, dir: CandidateDir(w.dir, n), res: res, box: seat.New(w.files),
		Ledger:  ledger.New(ledger.Marked{Emitter: w.Emitter(), N: n}, w.cfg.Now),
		Journal: recall.New(w.Rec.Part(recall.CandidatePart(n)), job.Told.Of(recall.CandidatePart(n)), w.cfg.Now),
		staff:   staff{agent: one.Agent, model: one.Model, large: one.Large, small: one.Small, variant: one.Variant, modelName: one.ModelName},
	}}
	if row.Parent > 0 {
		e.parent = f.all[row.Parent-1]
		e.continues = e.parent.account()
	}
	e.judge, e.copies = &judge{of: e.attempt, commands: w.judge.commands}, assisted{e.attempt}.copies(w.copied(n))
	e.store = func(ctx context.Context, r api.RepoResult) error { return f.Placed(ctx, n, r.Workspace, r.Copies) }
	return e
}

// finished is the end of a candidate as it is recorded.
type finished struct {
	Mark mark  `json:"mark"`
	End  End   `json:"end"`
	MS   int64 `json:"ms"`
}

// Enter implements contest.Entrant.
func (e *entrant) Enter(ctx context.Context, begins func()) contest.Entry {
	how := contest.Recalled
	was, err := recall.Record(ctx, e.of.main.Journal, fmt.Sprint("candidate ", e.n), nil, func(ctx context.Context, _ durable.Try) (finished, error) {
		how = contest.Worked
		begins()
		start := e.cfg.Now()
		e.end = e.work(ctx)
		e.ms = e.cfg.Now().Sub(start).Milliseconds()
		end := e.end
		end.Result = api.RepoResult{}
		return finished{e.mark(nil), end, e.ms}, nil
	})
	switch {
	case how == contest.Worked:
	case err != nil:
		how = contest.Absent
		if e.end = e.broken(ctx, err); e.of.main.Damage() == nil {
			e.end = e.finish(ctx, e.end) // an earlier daemon may have begun it
		}
	default:
		e.restore(was.Mark)
		e.end, e.ms = was.End, was.MS
	}
	e.spoiled()
	return how
}

// spoiled makes a damage of its part of the journal one of the task.
func (e *entrant) spoiled() {
	if err := e.Damage(); err != nil {
		e.of.main.Spoil(err)
	}
}

// Standing implements contest.Entrant.
func (e *entrant) Standing() contest.Standing {
	s := contest.Standing{Outcome: e.end.Outcome, Result: e.res, Usage: e.usage, MS: e.ms}
	switch {
	case e.end.Error != nil:
		s.Why = bounded(e.end.Error.Message, maxSummary)
	case s.Outcome != api.OutcomeVerified:
		s.Why = bounded(e.end.Diagnosis, maxSummary)
	}
	return s
}

// work is the whole of a candidate. Whatever happens, what its agent left is committed.
func (e *entrant) work(ctx context.Context) (end End) {
	defer func() {
		if v := recover(); v != nil {
			e.cfg.Logger.Error("a candidate panicked", "task", e.task.ID, "candidate", e.n, "panic", v, "stack", string(debug.Stack()))
			end = failed(api.Errorf(api.KindInternal, "internal error: %v", v))
		}
		end = e.finish(ctx, end)
		e.letGo()
		e.agent, e.tools, e.answers = nil, nil, nil // its history may be long, and others work on
	}()
	e.answers = recall.NewAgent(e.Journal, ctx, tool.Again())
	if err := os.MkdirAll(e.dir, 0o700); err != nil {
		return e.broken(ctx, api.Errorf(api.KindInternal, "create the directory of a candidate: %w", err))
	}
	if err := e.install(ctx); err != nil {
		return e.broken(ctx, err)
	}
	if err := e.keep(ctx, "workspace", e.place); err != nil {
		return e.broken(ctx, err)
	}
	return e.rounds(ctx)
}

// place makes the files of the candidate, but for one that was cut after its row named them.
func (e *entrant) place(ctx context.Context) (err error) {
	if e.res.Workspace == "" {
		e.res.Workspace, err = e.files(ctx)
	}
	if err != nil {
		return err
	}
	return e.of.Placed(ctx, e.n, e.res.Workspace, nil)
}

// files makes its durable files: over the layers of the task, or as a fork of those of its parent, which has ended.
func (e *entrant) files(ctx context.Context) (api.WorkspaceID, error) {
	if e.parent == nil {
		return e.cfg.Computers.Workspace(ctx, e.task.ID, e.staff.layers(e.project)...)
	}
	select {
	case e.of.forks <- struct{}{}:
		defer func() { <-e.of.forks }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	return e.cfg.Computers.Fork(ctx, e.task.ID, e.parent.res.Workspace)
}

// Lint implements contest.Entrant: the command runs in a clean sandbox.
func (e *entrant) Lint(ctx context.Context, lint string) (passed bool, err error) {
	defer e.spoiled()
	changes, err := e.changed(ctx, e.res.Head)
	if err != nil {
		return false, err
	}
	// What says how to lint is as it was before the work.
	changes = slices.DeleteFunc(changes, func(c cache.Change) bool { return gate.SaysLint(c.Path) })
	j := &judge{of: e.attempt, commands: []*evidence.Command{{Text: lint, Plan: report.Plain(lint)}}}
	g, err := j.over(ctx, api.RepoStepEvent{Step: "lint", Detail: lint}, "lint", changes, terms{})
	return g.Passed, err
}
