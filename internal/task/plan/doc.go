// Package plan runs plans: a request is divided into items, each item is a task of the one engine on a commit of the plan's branch, and a
// queue merges the results, one after the other.
//
//	s := plan.New(plan.Config{Rows: db, Tasks: engine, Git: cache, Source: forges.Source, Model: models.Open, Log: log, Owner: owner})
//	p, err := s.Create(ctx, words.Create{Task: task, Items: items})
//	p, err = s.Approve(ctx, account, p.ID)
//
// An item begins as soon as the items that it needs are completed and a place is free; there are no waves. It may change the files that
// its globs name, and no two items without an order have one in common ([Check]). It is completed when its commit is on the plan's
// branch, not when its agent has ended:
//
//	works -> merges -> checks -> completed
//	  ^        |         |
//	  +--------+---------+   a conflict, or a gate that fails on the merged result: the item continues on the new base
//
// Nothing resolves a conflict but the agent of the item, whose result is judged again. The branch moves by a compare-and-set, and only to
// a commit whose gate has passed.
//
// # Lives
//
// A plan that is not done has one goroutine, its driver, and one for each task of it that it waits for. All state is in rows, which are
// written before anything is done: the next daemon reads them and continues (Recover), with the tasks that the engine continues. Close ends
// the goroutines and leaves the plans as they are. HandOver gives plans to other nodes of a fleet: nothing begins any more, and when the last job of
// a plan has ended, or its task has stopped where another node can continue it, the plan goes with such tasks.
//
// The rows of a plan are changed by one caller at a time, under a lock of its own. The package must not know a server, SQL, or how a
// sandbox is created.
package plan
