package repo

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
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

// Name is the name of its model, or of its program.
func (c Candidate) Name() string {
	if c.Agent != "" || c.Model == nil {
		return cmp.Or(c.ModelName, c.Agent)
	}
	return c.Model.Name()
}

// CandidateDir is the folder of a candidate, below that of its task.
func CandidateDir(dir string, n int) string {
	return filepath.Join(dir, fmt.Sprintf("candidate-%d", n))
}

// candidateBranch is the branch of a candidate, until it is chosen or removed.
func candidateBranch(id api.TaskID, n int) string {
	return fmt.Sprintf("%s-candidate-%d", Branch(id), n)
}

// candidate is a candidate: an attempt with its own steps and its own part of the journal. It implements best.Candidate.
type candidate struct {
	attempt *attempt
	of      *group
	n       int
	// parent is the one whose work it continues; nil for none.
	parent *candidate
	// end is how it ended, and ms how long it took.
	end End
	ms  int64
}

// newCandidate makes the candidate of a row.
func (f *group) newCandidate(row api.Candidate, job Job) *candidate {
	w, n, one := f.main, row.N, job.Candidates[(row.N-1)%len(job.Candidates)]
	res := w.res
	res.Branch, res.Repositories, res.Candidates = candidateBranch(w.project.task.ID, n), slices.Clone(w.res.Repositories), nil
	res.Workspace = api.WorkspaceID(row.Workspace) // of a task that continues: it is this one's, also if nothing is done with it
	e := &candidate{of: f, n: n, attempt: &attempt{
		project: w.project, candidate: n, dir: CandidateDir(w.dir, n), res: res, slot: newSandboxSlot(w.project.files),
		steps:   newSteps(candidateEmitter{Emitter: w.steps.emitter(), n: n}, w.project.cfg.Now),
		journal: w.journal.Part(journal.CandidatePart(n)),
		spec:    agentSpec{agent: one.Agent, model: one.Model, large: one.Large, small: one.Small, variant: one.Variant, modelName: one.ModelName},
	}}
	if row.Parent > 0 {
		e.parent = f.all[row.Parent-1]
		e.attempt.continues = e.parent.account()
	}
	e.attempt.gates, e.attempt.copies = &gates{attempt: e.attempt, checks: w.gates.checks, support: w.gates.support, colours: w.gates.colours}, e.attempt.newCopies(w.project.copied(n))
	e.attempt.store = func(ctx context.Context, r api.RepoResult) error {
		return f.candidates.Placed(ctx, n, r.Workspace, r.Copies)
	}
	return e
}

// candidateEnd is the end of a candidate as it is recorded.
type candidateEnd struct {
	Mark snapshot `json:"mark"`
	End  End      `json:"end"`
	MS   int64    `json:"ms"`
}

// Enter implements best.Candidate.
func (e *candidate) Enter(ctx context.Context, begins func()) best.Entry {
	how := best.Recalled
	was, err := journal.Do(ctx, e.of.main.journal, fmt.Sprint("candidate ", e.n), nil, func(ctx context.Context, _ journal.Try) (candidateEnd, error) {
		how = best.Worked
		begins()
		start := e.attempt.project.cfg.Now()
		e.end = e.work(ctx)
		e.ms = e.attempt.project.cfg.Now().Sub(start).Milliseconds()
		end := e.end
		end.Result = api.RepoResult{}
		return candidateEnd{e.attempt.snapshot(nil), end, e.ms}, e.attempt.journal.Damage()
	})
	switch {
	case how == best.Worked:
	case err != nil:
		how = best.Absent
		if e.end = e.attempt.broken(ctx, err); e.of.main.journal.Damage() == nil {
			e.end = e.attempt.finish(ctx, e.end) // an earlier daemon may have begun it
		}
	default:
		e.attempt.restore(was.Mark)
		e.end, e.ms = was.End, was.MS
	}
	e.spoiled()
	return how
}

// spoiled makes a damage of its part of the journal one of the task.
func (e *candidate) spoiled() {
	if err := e.attempt.journal.Damage(); err != nil {
		e.of.main.journal.Spoil(err)
	}
}

// Result implements best.Candidate.
func (e *candidate) Result() best.Result {
	s := best.Result{Outcome: e.end.Outcome, OldOnly: e.end.OldOnly, Repo: e.attempt.res, Usage: e.attempt.usage, MS: e.ms}
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
	w := e.attempt
	defer func() {
		if v := recover(); v != nil {
			w.project.cfg.Logger.Error("a candidate panicked", "task", w.project.task.ID, "candidate", e.n, "panic", v, "stack", string(debug.Stack()))
			end = failed(api.Errorf(api.KindInternal, "internal error: %v", v))
		}
		end = w.finish(ctx, end)
		w.letGo()
		w.agent, w.tools, w.answers = nil, nil, nil // its history may be long, and others work on
	}()
	w.answers = journal.NewAgent(w.journal, ctx, tool.Again())
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return w.broken(ctx, api.Errorf(api.KindInternal, "create the directory of a candidate: %w", err))
	}
	if err := w.install(ctx); err != nil {
		return w.broken(ctx, err)
	}
	if err := w.keep(ctx, "workspace", e.place); err != nil {
		return w.broken(ctx, err)
	}
	return w.rounds(ctx)
}

// place makes the files of the candidate, but for one that was cut after its row named them.
func (e *candidate) place(ctx context.Context) (err error) {
	if e.attempt.res.Workspace == "" {
		e.attempt.res.Workspace, err = e.files(ctx)
	}
	if err != nil {
		return err
	}
	return e.of.candidates.Placed(ctx, e.n, e.attempt.res.Workspace, nil)
}

// files makes its durable files: over the layers of the task, or as a fork of those of its parent, which has ended.
func (e *candidate) files(ctx context.Context) (api.WorkspaceID, error) {
	p := e.attempt.project
	if e.parent == nil {
		return p.cfg.Sandboxes.Workspace(ctx, p.task.ID, e.attempt.spec.layers(p)...)
	}
	select {
	case e.of.forks <- struct{}{}:
		defer func() { <-e.of.forks }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	return p.cfg.Sandboxes.Fork(ctx, p.task.ID, e.parent.attempt.res.Workspace)
}

// Lint implements best.Candidate: the command runs in a clean sandbox.
func (e *candidate) Lint(ctx context.Context, lint string) (passed bool, err error) {
	defer e.spoiled()
	changes, err := e.attempt.project.changed(ctx, e.attempt.res.Head)
	if err != nil {
		return false, err
	}
	// What says how to lint is as it was before the work.
	changes = slices.DeleteFunc(changes, func(c cache.Change) bool { return gate.SaysLint(c.Path) })
	j := &gates{attempt: e.attempt, checks: []*gate.Check{{Text: lint, Plan: report.Plain(lint)}}}
	g, err := j.over(ctx, api.RepoStepEvent{Step: "lint", Detail: lint}, "lint", changes, terms{})
	return g.Passed, err
}

// newTests are the tests of its result that are new or changed.
func (e *candidate) newTests(ctx context.Context) ([]cache.Change, error) {
	if e.attempt.res.Head == "" {
		return nil, nil
	}
	changes, err := e.attempt.project.changed(ctx, e.attempt.res.Head)
	return slices.DeleteFunc(changes, func(c cache.Change) bool { return c.Delete || !gate.IsTest(c.Path) }), err
}

// Tests implements best.Candidate.
func (e *candidate) Tests(ctx context.Context) (bool, error) {
	tests, err := e.newTests(ctx)
	return len(tests) > 0, err
}

// Try implements best.Candidate: the gate runs in a clean sandbox, in little more time than it needed before.
func (e *candidate) Try(ctx context.Context, n int) (passed bool, err error) {
	defer e.spoiled()
	w := e.attempt
	changes, err := w.project.changed(ctx, w.res.Head)
	if err != nil {
		return false, err
	}
	others, err := e.of.all[n-1].newTests(ctx)
	if err != nil {
		return false, err
	}
	changes = slices.DeleteFunc(changes, func(c cache.Change) bool { return gate.IsTest(c.Path) })
	on := terms{need: gate.AnyTests, within: w.project.gateTimeout()}
	if k := len(w.res.Rounds); k > 0 && w.res.Rounds[k-1].Gate != nil {
		on.within = min(on.within, 5*time.Second+3*time.Duration(w.res.Rounds[k-1].Gate.MS)*time.Millisecond)
	}
	step := api.RepoStepEvent{Step: "tests of another candidate", Detail: fmt.Sprintf("with the tests of candidate %d: %s", n, w.res.Verify)}
	g, err := w.gates.over(ctx, step, fmt.Sprint("tests-of-", n), append(changes, others...), on)
	return g.Passed, err
}

// account returns what the candidates that continue the work of one learn, after what that one learned itself. What its agent
// called is read when it is needed.
func (e *candidate) account() []earlierAttempt {
	w := e.attempt
	a := earlierAttempt{transcript: TranscriptPath(w.dir), Attempt: loop.Attempt{Summary: w.res.Summary, Diagnosis: e.end.Diagnosis}}
	if n := len(w.res.Rounds); n > 0 {
		switch r := w.res.Rounds[n-1]; {
		case r.Gate != nil && !r.Gate.Passed:
			a.Gate = r.Gate
		case r.Original != nil && !r.Original.Passed:
			a.Gate, a.Original = r.Original, true
		case r.Disguised != nil && !r.Disguised.Passed:
			a.Gate = r.Disguised
		}
	}
	return append(w.continues[:len(w.continues):len(w.continues)], a)
}

// earlierAttempt is an attempt whose work is continued.
type earlierAttempt struct {
	loop.Attempt
	transcript string
}

// attempts are the earlier attempts for the first message, with the lists of their calls.
func (w *attempt) attempts() (out []loop.Attempt) {
	for _, a := range w.continues {
		a.Calls = w.project.callsIn(a.transcript)
		out = append(out, a.Attempt)
	}
	return out
}

// callsIn lists what an agent called. A transcript that was collected, or that cannot be read, leaves the list out: the files are
// in the workspace.
func (w *project) callsIn(transcript string) string {
	f, err := os.Open(transcript)
	if err != nil {
		return ""
	}
	defer f.Close()
	list, err := loop.Calls(f)
	if err != nil {
		w.cfg.Logger.Warn("cannot read the transcript of earlier work", "task", w.task.ID, "transcript", transcript, "err", err)
	}
	return list
}
