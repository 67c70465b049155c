// Package best has the words for a task with several candidates: agents that work side by side on the same request,
// of which the best result becomes that of the task.
//
//	req.Repo.Best = &best.Request{Of: 5, Vary: []best.Variant{{Strategy: "Write a failing test first."}}}
//
// Its types are plain data, and no value outlives its caller. The package must not know what a task is: package api
// stands on it.
package best
