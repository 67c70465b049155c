package repo

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/tool"
	"hortus.dev/internal/task/journal"
)

const (
	// gateGrace is how much longer than the agent's own time everything may take.
	gateGrace = time.Minute
	// endTimeout bounds what is done after a cancellation: ending what runs and
	// keeping what there is.
	endTimeout = 60 * time.Second
)

var errWall = errors.New("the wall-clock budget is exhausted")

// attempt is the work of one agent on a project: its workspace, its sandbox, its rounds and what they came to.
type attempt struct {
	project *project
	steps   *steps
	journal *journal.Run
	// dir has its outputs and its transcript.
	dir string
	// store stores what is known so far.
	store func(ctx context.Context, r api.RepoResult) error

	res   api.RepoResult
	spec  agentSpec
	gates *gates
	agent Worker
	tools *tool.Set // nil if the agent is a program
	slot  *sandboxSlot
	// copies are those of its sandbox, for sub-agents.
	copies *sandboxCopies
	// collected is the newest round whose changes are committed.
	collected int
	usage     api.Usage
	answers   *journal.Agent
	// progress is what the agent of a pass learns of the work so far; empty if the task has no passes.
	progress string
	// candidate is its number if the task has several; 0 for the only one.
	candidate int
	// continues are the earlier attempts whose work a candidate continues, the oldest first.
	continues []earlierAttempt
	// held releases what it holds.
	held []func()
}

// letGo releases what it holds.
func (w *attempt) letGo() {
	for _, release := range w.held {
		release()
	}
	w.held = nil
}

// finish ends what still runs and keeps what there is.
func (w *attempt) finish(ctx context.Context, end End) End {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if w.journal.Damage() == nil { // otherwise another daemon may use them
		w.copies.end(late)
	}
	if err := w.vacate(late); err != nil {
		w.project.cfg.Logger.Error("a sandbox of a task was not killed", "task", w.project.task.ID, "err", err)
		w.steps.closed(1)
		if end.Error == nil {
			end.Error = api.AsError(err)
		}
	}
	if end.Outcome == api.OutcomeVerified || end.Outcome == api.OutcomeAnswered || w.res.Workspace == "" || w.journal.Left() {
		return end
	}
	if w.kept() {
		w.res.Partial = w.res.Partial || end.Outcome != api.OutcomeNeedsHuman && w.res.Head != ""
		return end
	}
	if _, err := w.collect(late, len(w.res.Rounds), true); err != nil {
		w.project.cfg.Logger.Error("cannot commit partial work; keeping its workspace", "task", w.project.task.ID, "workspace", w.res.Workspace, "err", err)
	} else {
		w.res.Partial = w.res.Partial || w.res.Head != ""
		if w.project.conversation != nil {
			w.seal(late, len(w.res.Rounds)+1) // the next turn continues from these files
		}
	}
	return end
}

// kept reports whether the newest round has been collected.
func (w *attempt) kept() bool {
	n := len(w.res.Rounds)
	return n > 0 && w.collected == n
}

// broken returns how work ended that could not continue.
func (w *attempt) broken(ctx context.Context, err error) End {
	switch {
	case errors.Is(context.Cause(ctx), errWall):
		if w.project.req.Until != "" {
			w.res.Stopped = api.StopWall
		}
		return End{Outcome: api.OutcomeNeedsHuman, Diagnosis: "The wall-clock budget was exhausted before the work was done.",
			Question: "Should the task get more time (--wall)?"}
	case ctx.Err() != nil:
		return End{Outcome: api.OutcomeCanceled}
	}
	return failed(err)
}

func failed(err error) End { return End{Outcome: api.OutcomeFailed, Error: api.AsError(err)} }

// vacate kills the agent's sandbox, with all that it started.
func (w *attempt) vacate(ctx context.Context) error {
	proof, err := w.slot.end(ctx)
	w.steps.closed(proof.Left)
	return err
}

// budget is what the agent may use: the time since the task began to work counts.
func (w *attempt) budget() api.Budget {
	b := w.project.req.Budget
	if w.candidate > 0 {
		b = shareOf(b, *w.project.req.Best)
	}
	if b.WallMS > 0 {
		began := w.project.task.CreatedAt
		if at := w.project.task.StartedAt; !at.IsZero() {
			began = at // what it waited before does not count
		}
		spent := w.journal.Now().Sub(began)
		b.WallMS = max(1, b.WallMS-spent.Milliseconds())
	}
	return b
}

// shareOf is the part of a budget that one of several candidates has: all have the same, but the whole time.
func shareOf(b api.Budget, r api.BestOf) api.Budget {
	b.Steps = int(r.Share(int64(b.Steps)))
	b.Tokens, b.OutputBytes = r.Share(b.Tokens), r.Share(b.OutputBytes)
	b.CostUSD = r.Part(b.CostUSD)
	return b
}

func (w *attempt) save(ctx context.Context) error {
	if w.journal.Remembers() {
		return nil // more is stored already
	}
	return w.store(context.WithoutCancel(ctx), w.res)
}

// historyDepth is how many commits an agent can look back on.
const historyDepth = 100

// run is the whole of a task. Whatever happens, what the agent left is committed.
func (w *attempt) run(ctx context.Context, job Job) (end End) {
	defer func() {
		if v := recover(); v != nil {
			w.project.cfg.Logger.Error("task panicked", "task", w.project.task.ID, "panic", v, "stack", string(debug.Stack()))
			end = failed(api.Errorf(api.KindInternal, "internal error: %v", v))
		}
		end = w.finish(ctx, end)
		w.letGo()
		for _, release := range w.project.release {
			release()
		}
	}()
	if c := w.project.conversation; c != nil && c.sessions == nil {
		return failed(api.Errorf(api.KindUnsupported, "sessions cannot be used here"))
	}
	if err := w.prepare(ctx); err != nil {
		return w.broken(ctx, err)
	}
	if w.project.req.PrepareOnly {
		return End{Outcome: api.OutcomeVerified}
	}
	if w.project.conversation != nil {
		return w.converse(ctx)
	}
	if w.project.req.Best != nil {
		return w.project.best(ctx, w, job)
	}
	if w.res.Verify != "" {
		if err := w.before(ctx); err != nil {
			return w.broken(ctx, err)
		}
		if w.project.req.GateOnly {
			if !w.res.Before.Passed {
				return End{Outcome: api.OutcomeFailed, Diagnosis: "The gate does not pass on this commit."}
			}
			return End{Outcome: api.OutcomeVerified}
		}
		if w.project.checks() {
			return w.judge(ctx)
		}
		if end, stops := w.cannotStart(ctx); stops {
			return end
		}
	}
	if w.project.checks() {
		return w.judge(ctx)
	}
	if w.project.req.Until != "" {
		return w.passes(ctx)
	}
	return w.rounds(ctx)
}

// prepare brings everything to where the agent can begin.
func (w *attempt) prepare(ctx context.Context) error {
	if err := w.project.readIssue(ctx); err != nil {
		return err
	}
	if err := w.project.each(ctx, func(ctx context.Context, m *repository) error { return m.fetched(ctx) }); err != nil {
		return err
	}
	if err := w.project.meet(ctx); err != nil {
		return err
	}
	if err := w.project.readDocuments(ctx); err != nil {
		return err
	}
	w.res.Commit, w.res.Base, w.res.Repositories = w.project.base.Hash, w.project.base.Branch, w.project.results()
	if err := w.save(ctx); err != nil {
		return err
	}
	if !w.project.req.PrepareOnly {
		if err := w.gates.findGate(ctx); err != nil {
			return err
		}
	}
	if err := w.project.each(ctx, func(ctx context.Context, m *repository) error { return m.checkout(ctx) }); err != nil {
		return err
	}
	w.res.OffLimits = w.project.offLimits()
	if err := w.save(ctx); err != nil {
		return err
	}
	if err := w.project.each(ctx, func(ctx context.Context, m *repository) error { return m.ready(ctx) }); err != nil {
		return err
	}
	w.project.prepared = w.project.members.together(nil)
	w.res.NotInstalled = w.project.prepared.NotInstalled
	if w.project.req.Best != nil {
		return nil // each candidate has files of its own
	}
	if w.project.checks() {
		return nil
	}
	if err := w.install(ctx); err != nil || w.project.req.NoAgent() {
		return err
	}
	return w.keep(ctx, "workspace", w.place)
}

// workspace makes the durable files of the agent, or takes those of the task that is continued.
func (w *attempt) workspace(ctx context.Context) (err error) {
	if before := w.project.last(); before != nil {
		w.res.Workspace = before.Workspace
		return w.save(ctx)
	}
	layers, err := w.workspaceLayers(ctx)
	if err != nil {
		return err
	}
	if name := w.project.req.Workspace; name != "" {
		err = w.steps.do(ctx, api.RepoStepEvent{Step: "workspace", Detail: name}, func() (string, error) {
			w.res.Workspace, err = w.project.cfg.Sandboxes.Attach(ctx, w.project.task.ID, name, layers...)
			return name, err
		})
	} else if c := w.project.conversation; c != nil {
		w.res.Workspace, err = c.sessions.Workspace(ctx, c.turn.Session, layers...)
	} else {
		w.res.Workspace, err = w.project.cfg.Sandboxes.Workspace(ctx, w.project.task.ID, layers...)
	}
	if err != nil {
		return err
	}
	return w.save(ctx)
}
