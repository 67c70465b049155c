package repo

import (
	"context"
	"fmt"

	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/task/durable"
	"hortus.dev/internal/task/recall"
)

// works lets the agent work on a message. What Hortus's own agent asks and does is recorded by itself; of a program,
// the whole turn is one step.
func (w *attempt) works(ctx context.Context, n int, message string) (rep loop.Report) {
	if !w.staff.external() {
		return w.answers.Ended(w.agent.Run(ctx, message))
	}
	executed := false
	was, _ := recall.Record(ctx, w.Journal, fmt.Sprint("turn ", n), nil, func(ctx context.Context, try durable.Try) (recall.Worked, error) {
		executed = true
		if try.Cut {
			message = recall.CutTurn + message
		}
		rep = w.agent.Run(ctx, message)
		return recall.AsWorked(rep), ctx.Err()
	})
	if !executed {
		rep = was.Report()
	}
	return rep
}
