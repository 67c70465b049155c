package repo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/session"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/task/journal"
)

// cached finds the commit that the session lies on without the remote, if it is in the cache.
func (m *repository) cached(ctx context.Context) bool {
	if m.project.turn.Before() == nil {
		return false
	}
	r, err := m.project.cfg.Git.Find(m.URL)
	if err != nil {
		return false
	}
	m.repo = r
	if m.base, err = m.start(ctx); err != nil {
		m.repo = nil
	}
	return err == nil
}

// converse lets the agent answer the message. If it changed files and there is a gate, the gate judges them, and the agent gets
// what failed, as often as was asked.
func (w *attempt) converse(ctx context.Context) End {
	if w.project.cfg.Sessions == nil {
		return failed(api.Errorf(api.KindUnsupported, "sessions cannot be used here"))
	}
	closeTools, err := w.begin(ctx)
	if err != nil {
		return w.broken(ctx, err)
	}
	defer closeTools()
	end := w.turnRounds(ctx)
	if w.keepSandbox(ctx, end) {
		w.tools = nil // what it runs goes on
	}
	return end
}

func (w *attempt) turnRounds(ctx context.Context) End {
	message, err := journal.Do(ctx, w.journal, "brief", nil, func(ctx context.Context, _ journal.Try) (string, error) { return w.turnMessage(ctx) })
	if err != nil {
		return w.broken(ctx, err)
	}
	most := 1 + max(w.project.req.Rounds, 0)
	for n := 1; ; n++ {
		rep, err := w.round(ctx, n, message)
		if err != nil {
			return w.broken(ctx, err)
		}
		r := &w.res.Rounds[n-1]
		if rep.Stop == api.StopCanceled {
			return w.broken(ctx, context.Canceled)
		}
		blocked := rep.Finish != nil && rep.Finish.Blocked != ""
		switch {
		case !goesOn(rep.Stop) || blocked:
			return w.unsolved(r, rep)
		case w.res.Head == w.project.turn.Head:
			return End{Outcome: api.OutcomeAnswered}
		case w.res.Verify == "":
			return End{Outcome: api.OutcomeAnswered, Diagnosis: "Files were changed. There is no gate command, so nothing verified the changes."}
		case r.Head == "":
			return End{Outcome: api.OutcomeAnswered, Diagnosis: "All changes of the session were undone; there is nothing to verify."}
		}
		if w.res.Before == nil {
			if err := w.before(ctx); err != nil {
				return w.broken(ctx, err)
			}
		}
		if err := w.gates.run(ctx, n); err != nil {
			return w.broken(ctx, err)
		}
		if w.gates.passed(r) {
			return End{Outcome: api.OutcomeVerified}
		}
		if n == most {
			return w.unsolved(r, rep)
		}
		message = loop.WithoutFinish(w.again(r, rep, n, most))
	}
}

// turnHead is the commit that a turn left: that of the turn before, if it has the same files.
func (w *attempt) turnHead(ctx context.Context, made string) string {
	if t := w.project.turn; t != nil && t.Head != "" {
		if stats, err := w.project.repo.Stat(ctx, t.Head, made); err == nil && len(stats) == 0 {
			return t.Head
		}
	}
	return made
}

// turnMessage is what the agent is told: in the first turn with what the repository says of itself.
func (w *attempt) turnMessage(ctx context.Context) (string, error) {
	turn := w.project.turn
	if len(turn.Transcripts) == 0 && turn.Before() == nil {
		return w.brief(ctx)
	}
	return loop.NextMessage(w.project.task.Create.Request), nil
}

// past reads what was said in the turns before. A transcript that cannot be read to its end leaves out what follows in it.
func (w *attempt) past() *loop.Past {
	p := &loop.Past{}
	for _, name := range w.project.turn.Transcripts {
		f, err := os.Open(name)
		if err == nil {
			err = p.Add(f)
			f.Close()
		}
		if err != nil {
			w.project.cfg.Logger.Error("a turn of a session is missing in its conversation", "session", w.project.turn.Session, "transcript", name, "err", err)
		}
	}
	return p
}

// continueLoop sets what a loop needs to continue the conversation.
func (w *attempt) continueLoop(cfg *loop.Config) {
	if w.project.turn != nil {
		cfg.System, cfg.Talk, cfg.Past = loop.SystemTalk, true, w.past().Messages()
	}
}

// maxPastText bounds the conversation that is given to a program as text, in bytes.
const maxPastText = 96 << 10

// continueProgram sets what a program needs to continue the conversation.
func (w *attempt) continueProgram(d *WorkerConfig) {
	if t := w.project.turn; t != nil && len(t.Transcripts) > 0 {
		d.Session, d.Past = t.AgentSession, w.past().Text(maxPastText)
	}
}

// openSandbox returns the sandbox of a round: the one that is there, or another one over the workspace. fresh is true if it has
// none of the services yet.
func (w *attempt) openSandbox(ctx context.Context) (c Sandbox, fresh bool, err error) {
	if c, err := w.slot.sandbox(); err == nil {
		return c, false, nil
	}
	turn, began := w.project.turn, w.project.cfg.Now()
	how := session.RestoredNew
	if turn != nil && len(w.res.Rounds) == 1 {
		if turn.Before() != nil {
			how = session.RestoredRebuilt
		}
		if c, found := w.project.cfg.Sessions.Take(ctx, turn.Session, time.Duration(w.project.sandbox().TTLMS)*time.Millisecond); c != nil {
			w.tellRestored(ctx, c, found, began)
			return c, false, nil
		}
	}
	access, err := w.spec.access(ctx, w.project)
	if err == nil {
		c, err = w.project.cfg.Sandboxes.Open(ctx, w.spec.box(w.project), w.res.Workspace, access)
	}
	if err == nil && turn != nil && len(w.res.Rounds) == 1 {
		w.tellRestored(ctx, c, how, began)
	}
	return c, true, err
}

// tellRestored tells how the turn got its sandbox. Its time is that of the conversation too.
func (w *attempt) tellRestored(ctx context.Context, c Sandbox, how string, began time.Time) {
	w.project.cfg.Sessions.Restored(ctx, w.project.turn.Session, session.RestoredEvent{
		Turn: w.project.turn.N, How: how, Sandbox: c.Info().ID, Messages: len(w.past().Messages()), MS: w.project.cfg.Now().Sub(began).Milliseconds(),
	})
}

// restSandbox ends the agent's part of a round: its sandbox ends with its commands, unless the next turn may have it.
func (w *attempt) restSandbox(ctx context.Context, rep loop.Report) error {
	if t := w.project.turn; t != nil {
		if a, ok := w.agent.(interface{ Session() string }); ok {
			w.res.AgentSession = a.Session()
		}
		if t.Stays && goesOn(rep.Stop) {
			return nil
		}
	}
	// Its jobs are those of a sandbox that is about to end.
	if w.tools != nil {
		w.tools.Close(ctx)
	}
	return w.vacate(ctx)
}

// changedWorkspace names the workspace whose changes are those of the task, while nobody writes to it: for a turn a copy of it, which is
// its checkpoint.
func (w *attempt) changedWorkspace(ctx context.Context) (api.WorkspaceID, error) {
	turn := w.project.turn
	if turn == nil {
		return w.res.Workspace, nil
	}
	c, err := w.slot.sandbox()
	if errors.Is(err, errNoSandbox) {
		c = nil
	}
	id, err := w.project.cfg.Sessions.Copy(ctx, turn.Session, w.res.Workspace, c)
	if err != nil && c != nil && ctx.Err() == nil {
		// It cannot be stopped for the copy, or wrote too much for one, so it ends.
		w.project.cfg.Logger.Info("a sandbox of a session does not stay", "session", turn.Session, "err", err)
		if err = w.vacate(ctx); err == nil {
			id, err = w.project.cfg.Sessions.Copy(ctx, turn.Session, w.res.Workspace, nil)
		}
	}
	if err != nil {
		return "", fmt.Errorf("make a checkpoint: %w", err)
	}
	if old := w.res.Checkpoint; old != "" {
		w.project.cfg.Sessions.Discard(ctx, old)
	}
	w.res.Checkpoint = id
	return id, nil
}

// keepSandbox gives the sandbox to the session, if it may stay.
func (w *attempt) keepSandbox(ctx context.Context, end End) bool {
	c, err := w.slot.sandbox()
	if err != nil || ctx.Err() != nil || !w.project.turn.Stays {
		return false
	}
	switch end.Outcome {
	case api.OutcomeAnswered, api.OutcomeVerified, api.OutcomeNeedsHuman:
	default:
		return false
	}
	if !w.project.cfg.Sessions.Keep(ctx, w.project.turn.Session, c) {
		return false
	}
	w.slot.set(nil)
	return true
}

// mayLackGate reports whether a turn does without a gate, because its repository has no test command.
func (w *attempt) mayLackGate(err error) bool {
	return w.project.turn != nil && api.KindOf(err) == api.KindNotFound
}
