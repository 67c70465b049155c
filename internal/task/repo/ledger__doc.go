// Package ledger tells the steps of the work on a repository as events, and keeps their names for the receipt of a task that is
// canceled.
//
//	l := ledger.New(log, time.Now)
//	err := l.Step(ctx, api.RepoStepEvent{Step: "checkout"}, func() (string, error) { return "3 files", write() })
//	receipt := l.Receipt()
//
// A candidate has a ledger of its own over a [Marked] emitter, which names it in each event. A ledger holds no resource, and may be
// used from several goroutines. The package must not know what a step does.
package repo
