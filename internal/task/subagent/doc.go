// Package subagent gives the sub-agents of an agent copies of its sandbox to work in, and removes them.
//
//	copies := subagent.New(subagent.Config{Task: id, Computers: computers, Agent: seat, Begins: begins, Named: row, Name: store, Closed: count})
//	defer copies.End(ctx)
//	...
//	q := answers.Question(n)
//	question := q.For(log)
//	question.Copy = func(ctx context.Context) (loop.Copy, error) { return copies.Make(ctx, n, q.Journal, keep) }
//
// A copy lives from Make until its Close, at the latest until End. It has a workspace, which the row of the task names while it is there: the
// next daemon removes the workspaces of tasks that no row names. A sub-agent that goes on after the end of its daemon
// gets another sandbox over the same workspace, when it uses it first. The package starts no goroutine, and must not know what
// a sub-agent does.
//
// # Reasons
//
// Only an answer comes back of a copy: to merge files of several copies would be a decision
// with conflicts. Each question has a part of the journal with a clock of its own, so that the
// order in which questions end does not matter.
package subagent
