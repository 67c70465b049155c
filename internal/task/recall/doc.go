// Package recall lets the work on a repository, and its agent, go through what was recorded before their daemon died, and
// continue behind it.
//
//	j := recall.New(run, told, now)
//	n, err := recall.Record(ctx, j, "count", nil, func(ctx context.Context, _ durable.Try) (int, error) { return count(ctx) })
//	agent := recall.NewAgent(j, ctx, tool.Again())
//	cfg := loop.Config{Model: agent.Model(m), Tools: all, Do: agent.Do(), Emit: j.Facts(log)}
//
// A [Journal] with a nil run records nothing. Its methods may be called from several goroutines; an [Agent] is for one. Both hold
// no resource. An error of the journal itself is kept in it, see [Journal.Damage]: the work must end then.
//
// The package must not know what the work is.
package recall
