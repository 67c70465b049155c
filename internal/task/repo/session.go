package repo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/session"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/task/journal"
)

// conversation is what a task that is a turn has of its session: the turns before, and what the session keeps between turns. It is nil for
// another task.
type conversation struct {
	turn     *Turn
	sessions Sessions
	archive  Archive // nil for none
	now      func() time.Time
	log      *slog.Logger
}

// conversation returns that of a job; nil if it is no turn.
func (r *Runner) conversation(job Job) *conversation {
	if job.Turn == nil {
		return nil
	}
	return &conversation{turn: job.Turn, sessions: r.cfg.Sessions, archive: r.cfg.Archive, now: r.cfg.Now, log: r.cfg.Logger}
}

// before is the result of the turn before, as far as this one continues it; nil if there is none.
func (c *conversation) before() *api.RepoResult {
	if c == nil {
		return nil
	}
	return c.turn.Before()
}

// past reads what was said in the turns before. A transcript that cannot be read to its end leaves out what follows in it.
func (c *conversation) past() *loop.Past {
	p := &loop.Past{}
	for _, name := range c.turn.Transcripts {
		f, err := os.Open(c.transcript(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // its task had none, or it was too long ago
		}
		if err == nil {
			err = p.Add(f)
			f.Close()
		}
		if err != nil {
			c.log.Error("a turn of a session is missing in its conversation", "session", c.turn.Session, "transcript", name, "err", err)
		}
	}
	return p
}

// transcript is where the transcript of a turn is: what another node had came with the workspace.
func (c *conversation) transcript(name string) string {
	if _, err := os.Stat(name); err == nil || c.archive == nil {
		return name
	}
	return filepath.Join(c.archive.Beside(c.turn.Workspace), filepath.Base(name))
}

// intoLoop sets what a loop needs to continue the conversation.
func (c *conversation) intoLoop(cfg *loop.Config) {
	if c != nil {
		cfg.System, cfg.Talk, cfg.Past = loop.SystemTalk, true, c.past().Messages()
	}
}

// maxPastText bounds the conversation that is given to a program as text, in bytes.
const maxPastText = 96 << 10

// intoProgram sets what a program needs to continue the conversation.
func (c *conversation) intoProgram(cfg *WorkerConfig) {
	if c != nil && len(c.turn.Transcripts) > 0 {
		cfg.Session, cfg.Past = c.turn.AgentSession, c.past().Text(maxPastText)
	}
}

// take returns the sandbox that stayed after the turn before, which may live so long; nil if there is none.
func (c *conversation) take(ctx context.Context, live time.Duration) Sandbox {
	began := c.now()
	sandbox, how := c.sessions.Take(ctx, c.turn.Session, live)
	if sandbox != nil {
		c.restored(ctx, sandbox, how, began)
	}
	return sandbox
}

// opened tells the session that the turn has a sandbox of its own.
func (c *conversation) opened(ctx context.Context, sandbox Sandbox, began time.Time) {
	how := session.RestoredNew
	if c.before() != nil {
		how = session.RestoredRebuilt
	}
	c.restored(ctx, sandbox, how, began)
}

// restored tells how the turn got its sandbox. Its time is that of the conversation too.
func (c *conversation) restored(ctx context.Context, sandbox Sandbox, how string, began time.Time) {
	c.sessions.Restored(ctx, c.turn.Session, session.RestoredEvent{
		Turn: c.turn.N, How: how, Sandbox: sandbox.Info().ID, Messages: len(c.past().Messages()), MS: c.now().Sub(began).Milliseconds(),
	})
}

// checkpoint copies the workspace. sandbox is the sandbox that has it, if there is one; end ends it.
func (c *conversation) checkpoint(ctx context.Context, ws api.WorkspaceID, sandbox Sandbox, end func(context.Context) error) (api.WorkspaceID, error) {
	id, err := c.sessions.Copy(ctx, c.turn.Session, ws, sandbox)
	if err != nil && sandbox != nil && ctx.Err() == nil {
		// It cannot be stopped for the copy, or wrote too much for one, so it ends.
		c.log.Info("a sandbox of a session does not stay", "session", c.turn.Session, "err", err)
		if err = end(ctx); err == nil {
			id, err = c.sessions.Copy(ctx, c.turn.Session, ws, nil)
		}
	}
	if err != nil {
		return "", fmt.Errorf("make a checkpoint: %w", err)
	}
	return id, nil
}

// cached finds the commit that the session lies on without the remote, if it is in the cache.
func (m *repository) cached(ctx context.Context) bool {
	if m.project.conversation.before() == nil {
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
	closeTools, err := w.begin(ctx)
	if err != nil {
		return w.broken(ctx, err)
	}
	defer closeTools()
	end := w.turnRounds(ctx)
	if w.keepSandbox(ctx, end) {
		w.tools = nil // what it runs continues
	}
	return end
}

func (w *attempt) turnRounds(ctx context.Context) End {
	message, err := journal.Do(ctx, w.journal, "brief", nil, func(ctx context.Context, _ journal.Try) (string, error) { return w.turnMessage(ctx) })
	if err != nil {
		return w.broken(ctx, err)
	}
	most, told := 1+max(w.project.req.Rounds, 0), w.told()
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
		news := told.add(w.res.Refused)
		switch {
		case !goesOn(rep.Stop) || blocked:
			return w.unsolved(ctx, r, rep)
		case news && n < most:
			message = loop.WithoutFinish(loop.Rejected(w.res.Refused, ""))
			continue
		case w.res.Head == w.project.conversation.turn.Head:
			return End{Outcome: api.OutcomeAnswered}
		case w.res.Verify == "":
			end := End{Outcome: api.OutcomeAnswered, Diagnosis: "Files were changed. There is no gate command, so nothing verified the changes."}
			if w.project.req.Push || w.project.req.MergeRequest {
				end.Diagnosis += " Only verified changes are delivered."
			}
			return end
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
		passed := w.gates.passed(r)
		if !passed && w.leaves(ctx, r, rep) {
			w.res.Rounds = concede(w.res.Rounds)
			passed = true
		}
		if passed {
			if err := w.deliverOnce(ctx); err != nil {
				return w.broken(ctx, err)
			}
			return End{Outcome: api.OutcomeVerified}
		}
		if n == most {
			return w.unsolved(ctx, r, rep)
		}
		message = loop.WithoutFinish(w.again(r, rep, n, most)) + w.named(r)
	}
}

// turnMessage is what the agent learns: in the first turn with what the repository says of itself.
func (w *attempt) turnMessage(ctx context.Context) (string, error) {
	turn := w.project.conversation.turn
	if len(turn.Transcripts) == 0 && turn.Before() == nil {
		return w.brief(ctx)
	}
	return loop.NextMessage(w.project.task.Create.Request), nil
}

// openSandbox returns the sandbox of a round: the one that is there, or another one over the workspace. fresh is true if it has
// none of the services yet.
func (w *attempt) openSandbox(ctx context.Context) (sandbox Sandbox, fresh bool, err error) {
	if sandbox, err := w.slot.sandbox(); err == nil {
		return sandbox, false, nil
	}
	talk, began := w.project.conversation, w.project.cfg.Now()
	first := talk != nil && len(w.res.Rounds) == 1
	if first {
		if sandbox := talk.take(ctx, time.Duration(w.project.sandbox().TTLMS)*time.Millisecond); sandbox != nil {
			return sandbox, false, nil
		}
	}
	access, err := w.spec.access(ctx, w.project)
	if err == nil {
		sandbox, err = w.project.cfg.Sandboxes.Open(ctx, w.spec.sandboxRequest(w.project), w.res.Workspace, access)
	}
	if err == nil && first {
		talk.opened(ctx, sandbox, began)
	}
	return sandbox, true, err
}

// restSandbox ends the agent's part of a round: its sandbox ends with its commands, unless the next turn may have it.
func (w *attempt) restSandbox(ctx context.Context, rep loop.Report) error {
	if talk := w.project.conversation; talk != nil {
		if a, ok := w.agent.(interface{ Session() string }); ok {
			w.res.AgentSession = a.Session()
		}
		if talk.turn.Stays && goesOn(rep.Stop) {
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
	talk := w.project.conversation
	if talk == nil {
		return w.res.Workspace, nil
	}
	sandbox, err := w.slot.sandbox()
	if err != nil {
		sandbox = nil
	}
	id, err := talk.checkpoint(ctx, w.res.Workspace, sandbox, w.vacate)
	if err != nil {
		return "", err
	}
	if old := w.res.Checkpoint; old != "" {
		talk.sessions.Discard(ctx, old)
	}
	w.res.Checkpoint = id
	return id, nil
}

// keepSandbox gives the sandbox to the session, if it may stay.
func (w *attempt) keepSandbox(ctx context.Context, end End) bool {
	talk := w.project.conversation
	sandbox, err := w.slot.sandbox()
	if err != nil || ctx.Err() != nil || !talk.turn.Stays {
		return false
	}
	switch end.Outcome {
	case api.OutcomeAnswered, api.OutcomeVerified, api.OutcomeNeedsHuman:
	default:
		return false
	}
	if !talk.sessions.Keep(ctx, talk.turn.Session, sandbox) {
		return false
	}
	w.slot.set(nil)
	return true
}
