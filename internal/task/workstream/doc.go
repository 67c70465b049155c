// Package workstream knows who changes which files of which repository now, for each account: plans, tasks that belong to no plan, and
// turns of sessions. Each of them asks it before it begins.
//
//	r := workstream.New(workstream.Config{Sources: []workstream.Source{plan.Claims{...}, task.Claims{...}}})
//	changed := r.Changed()
//	with, entered, err := r.Enter(ctx, account, claims, api.OverlapWait, begin)
//	if err == nil && !entered {
//		<-changed // and try again
//	}
//
// It stores nothing: all that it says is read from the rows of those who change files, so it is the same in the next daemon. Of two that
// begin at the same time one has stored that it began before the other one looks.
//
// Nobody waits for ever: one that works waits for nobody, of two that wait the later one waits for the earlier one, and nobody waits for those
// who came later and work at the same time as others.
//
// Several processes that share the rows have a Registry each. Config.Exclusive keeps them apart, and who waits looks at the rows again and again.
//
// A Registry has no goroutine. The package must not know what plans, tasks and sessions are.
package workstream
