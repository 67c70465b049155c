package repo

import (
	"context"
	"fmt"

	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/task/journal"
)

// works lets the agent work on a message. What Hortus's own agent asks and does is recorded by itself; of a program,
// the whole turn is one step.
func (w *attempt) works(ctx context.Context, n int, message string) (rep loop.Report) {
	if !w.spec.external() {
		return w.answers.Ended(w.agent.Run(ctx, message))
	}
	executed := false
	was, _ := journal.Do(ctx, w.Run, fmt.Sprint("turn ", n), nil, func(ctx context.Context, try journal.Try) (journal.Report, error) {
		executed = true
		if try.Cut {
			message = journal.CutTurn + message
		}
		rep = w.agent.Run(ctx, message)
		return journal.ReportOf(rep), ctx.Err()
	})
	if !executed {
		rep = was.Loop()
	}
	return rep
}
