package repo

import (
	"context"
	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/tool"
	"hortus.dev/internal/task/contract"
	"hortus.dev/internal/task/subagent"
)

// assisted is an attempt whose agent has sub-agents.
type assisted struct{ *attempt }

// copies begins without copies of its sandbox, but for those that the row of a task that goes on names.
func (w assisted) copies(named api.CandidateCopies) *subagent.Copies {
	return subagent.New(subagent.Config{
		Task: w.task.ID, Computers: w.cfg.Computers, Agent: w.box, Begins: w.begins, Named: named,
		Name: func(ctx context.Context, all api.CandidateCopies) error {
			w.res.Copies = all // the agent waits for its sub-agents
			return w.save(ctx)
		},
		Closed: w.Closed, Logger: w.cfg.Logger,
	})
}

// begins is what the agent's sandbox is opened with.
func (w assisted) begins(ctx context.Context) (contract.Preparation, error) {
	access, err := w.staff.access(ctx, w.project)
	return contract.Preparation{Box: w.staff.box(w.project), Access: access, Services: w.prepared.Services}, err
}

// research is the agent's way to ask them.
func (w assisted) research(keep tool.OutputStore) *loop.Research {
	return &loop.Research{
		Tools: tool.Reading(tool.Config{Box: w.box, Keep: keep}), Reads: tool.Reads(), Copies: w.attempt.copies.Can(),
		Begin: func(n int) loop.Question {
			q := w.answers.Question(n)
			question := q.For(w.Emitter())
			question.Copy = func(ctx context.Context) (loop.Copy, error) { return w.attempt.copies.Make(ctx, n, q.Journal, keep) }
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
