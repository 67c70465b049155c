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
	"hortus.dev/internal/task/best"
	"hortus.dev/internal/task/gate"
	"hortus.dev/internal/task/gate/report"
	"hortus.dev/internal/task/journal"
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
type candidate struct {
	*attempt
	of *bestOf
	n  int
	// parent is the one whose work it continues; nil for none.
	parent *candidate
	// end is how it ended, and ms how long it took.
	end End
	ms  int64
}

// entrant begins the candidate of a row.
func (f *bestOf) newCandidate(row api.Candidate, job Job) *candidate {
	w, n, one := f.main, row.N, job.Candidates[(row.N-1)%len(job.Candidates)]
	res := w.res
	res.Branch, res.Repositories, res.Candidates = candidateBranch(w.task.ID, n), slices.Clone(w.res.Repositories), nil
	res.Workspace = api.WorkspaceID(row.Workspace) // of a task that goes on: it is this one's, also if nothing is done with it
	e := &candidate{of: f, n: n, attempt: &attempt{
		project: w.project, candidate: n, dir: CandidateDir(w.dir, n), res: res, slot: newSandboxSlot(w.files),
		steps: newSteps(candidateEmitter{Emitter: w.emitter(), n: n}, w.cfg.Now),
		Run:   w.Run.Part(journal.CandidatePart(n)),
		spec:  agentSpec{agent: one.Agent, model: one.Model, large: one.Large, small: one.Small, variant: one.Variant, modelName: one.ModelName},
	}}
	if row.Parent > 0 {
		e.parent = f.all[row.Parent-1]
		e.continues = e.parent.account()
	}
	e.gates, e.copies = &gates{of: e.attempt, commands: w.gates.commands}, e.attempt.newCopies(w.copied(n))
	e.store = func(ctx context.Context, r api.RepoResult) error { return f.Placed(ctx, n, r.Workspace, r.Copies) }
	return e
}

// finished is the end of a candidate as it is recorded.
type candidateEnd struct {
	Mark snapshot `json:"mark"`
	End  End      `json:"end"`
	MS   int64    `json:"ms"`
}

// Enter implements contest.Entrant.
func (e *candidate) Enter(ctx context.Context, begins func()) best.Entry {
	how := best.Recalled
	was, err := journal.Do(ctx, e.of.main.Run, fmt.Sprint("candidate ", e.n), nil, func(ctx context.Context, _ journal.Try) (candidateEnd, error) {
		how = best.Worked
		begins()
		start := e.cfg.Now()
		e.end = e.work(ctx)
		e.ms = e.cfg.Now().Sub(start).Milliseconds()
		end := e.end
		end.Result = api.RepoResult{}
		return candidateEnd{e.snapshot(nil), end, e.ms}, nil
	})
	switch {
	case how == best.Worked:
	case err != nil:
		how = best.Absent
		if e.end = e.broken(ctx, err); e.of.main.Run.Damage() == nil {
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
func (e *candidate) spoiled() {
	if err := e.Run.Damage(); err != nil {
		e.of.main.Run.Spoil(err)
	}
}

// Standing implements contest.Entrant.
func (e *candidate) Result() best.Result {
	s := best.Result{Outcome: e.end.Outcome, Repo: e.res, Usage: e.usage, MS: e.ms}
	switch {
	case e.end.Error != nil:
		s.Why = bounded(e.end.Error.Message, maxSummary)
	case s.Outcome != api.OutcomeVerified:
		s.Why = bounded(e.end.Diagnosis, maxSummary)
	}
	return s
}

// work is the whole of a candidate. Whatever happens, what its agent left is committed.
func (e *candidate) work(ctx context.Context) (end End) {
	defer func() {
		if v := recover(); v != nil {
			e.cfg.Logger.Error("a candidate panicked", "task", e.task.ID, "candidate", e.n, "panic", v, "stack", string(debug.Stack()))
			end = failed(api.Errorf(api.KindInternal, "internal error: %v", v))
		}
		end = e.finish(ctx, end)
		e.letGo()
		e.agent, e.tools, e.answers = nil, nil, nil // its history may be long, and others work on
	}()
	e.answers = journal.NewAgent(e.Run, ctx, tool.Again())
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
func (e *candidate) place(ctx context.Context) (err error) {
	if e.res.Workspace == "" {
		e.res.Workspace, err = e.files(ctx)
	}
	if err != nil {
		return err
	}
	return e.of.Placed(ctx, e.n, e.res.Workspace, nil)
}

// files makes its durable files: over the layers of the task, or as a fork of those of its parent, which has ended.
func (e *candidate) files(ctx context.Context) (api.WorkspaceID, error) {
	if e.parent == nil {
		return e.cfg.Sandboxes.Workspace(ctx, e.task.ID, e.spec.layers(e.project)...)
	}
	select {
	case e.of.forks <- struct{}{}:
		defer func() { <-e.of.forks }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	return e.cfg.Sandboxes.Fork(ctx, e.task.ID, e.parent.res.Workspace)
}

// Lint implements contest.Entrant: the command runs in a clean sandbox.
func (e *candidate) Lint(ctx context.Context, lint string) (passed bool, err error) {
	defer e.spoiled()
	changes, err := e.changed(ctx, e.res.Head)
	if err != nil {
		return false, err
	}
	// What says how to lint is as it was before the work.
	changes = slices.DeleteFunc(changes, func(c cache.Change) bool { return gate.SaysLint(c.Path) })
	j := &gates{of: e.attempt, commands: []*gate.Check{{Text: lint, Plan: report.Plain(lint)}}}
	g, err := j.over(ctx, api.RepoStepEvent{Step: "lint", Detail: lint}, "lint", changes, terms{})
	return g.Passed, err
}
