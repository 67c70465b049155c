// Package best lets the candidates of a task work side by side, keeps what is known of each, and chooses the best one.
//
//	c := best.New(best.Config{Request: *req.Best, AtOnce: 8, Enter: enter, Store: store, Tell: tell, More: more, Damaged: damaged})
//	c.Run(ctx)
//	n := c.Choose()
//
// A request with several levels is a search: while no candidate passes, the next level continues the best one that no level has
// continued yet, also one of an earlier level. Which one that is follows from the rows alone.
//
// [Rank] orders results: the gate passed; something was changed; the gate ran on it; fewer tests that passed before and do not
// pass now; the lint command passed; fewer tests that fail, if no gate passed; fewer changed lines; lower cost; fewer tokens; the
// lower number. The order is total, so the same scores give the same order.
//
// [Candidates] start a goroutine for each [Candidate] and wait for all of them in Run; they hold no other resource. The package must
// not know what a candidate does, what a repository is, or how anything is recorded.
package best
