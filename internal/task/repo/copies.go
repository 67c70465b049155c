package repo

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/tool"
)

// copies begins without copies of its sandbox, but for those that the row of a task that goes on names.
func (w *attempt) newCopies(named api.CandidateCopies) *sandboxCopies {
	return newSandboxCopies(copiesConfig{
		task: w.task.ID, sandboxes: w.cfg.Sandboxes, agent: w.slot, begins: w.preparation, named: named,
		name: func(ctx context.Context, all api.CandidateCopies) error {
			w.res.Copies = all // the agent waits for its sub-agents
			return w.save(ctx)
		},
		closed: w.closed, logger: w.cfg.Logger,
	})
}

// begins is what the agent's sandbox is opened with.
func (w *attempt) preparation(ctx context.Context) (Preparation, error) {
	access, err := w.spec.access(ctx, w.project)
	return Preparation{Sandbox: w.spec.box(w.project), Access: access, Services: w.prepared.Services}, err
}

// research is the agent's way to ask them.
func (w *attempt) research(keep tool.OutputStore) *loop.Research {
	return &loop.Research{
		Tools: tool.Reading(tool.Config{Sandbox: w.slot, Keep: keep}), Reads: tool.Reads(), Copies: w.copies.can(),
		Begin: func(n int) loop.Question {
			q := w.answers.Question(n)
			question := q.For(w.emitter())
			question.Copy = func(ctx context.Context) (loop.Copy, error) { return w.copies.make(ctx, n, q.Run, keep) }
			return question
		},
	}
}

// copied are the copies that the row of a task that goes on names for a candidate, or for the only agent (0).
func (p *project) copied(candidate int) api.CandidateCopies {
	switch row := p.task.Repo; {
	case row == nil:
	case candidate == 0:
		return row.Copies
	case candidate <= len(row.Candidates):
		return row.Candidates[candidate-1].Copies
	}
	return nil
}
