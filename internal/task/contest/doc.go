// Package contest lets the candidates of a task work side by side, keeps what is known of each, and chooses the best one by
// package choice.
//
//	c := contest.New(contest.Config{Request: *req.Best, AtOnce: 8, Enter: enter, Store: store, Tell: tell, More: more, Damaged: damaged})
//	c.Run(ctx)
//	best := c.Choose()
//
// A request with several levels is a search: while no candidate passes, the next level continues the best one that no level has
// continued yet, also one of an earlier level. Which one that is follows from the rows alone.
//
// A contest starts a goroutine for each [Entrant] and waits for all of them in Run; it holds no other resource. It must not know
// what a candidate does, what a repository is, or how anything is recorded.
//
// # Reasons
//
// The order is total and decides by what the host measured, never by what a model says. The
// tree of a search is not stored: it follows from the recorded ends of the candidates. All
// candidates of a level continue one and the same, since several parents would spend the budget
// on work that is known to be worse. Each candidate has the same part of the budgets, so that
// none depends on how fast the others are.
package contest
