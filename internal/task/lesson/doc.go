// Package lesson learns from tasks that were verified: which failures they had, and what fixed them. The next task
// on the same repository, or with a program of the same language, is offered what fixed the same or a similar
// failure.
//
//	book := lesson.New(lesson.Config{Rows: db})
//	known, err := book.About(ctx, account, scope, output) // for the Debugger or the agent
//	...
//	err = book.Learn(ctx, task, patch) // after its end
//
// A failure is known by its fingerprint: the lines of its output that name the error, without numbers, paths and
// times. Failures with other fingerprints are found by the words that they share and, with an [Embedder], by vectors:
// of failures that mean the same in other words.
//
// # What is trusted
//
// Nothing of a lesson is. Its texts come from programs, repositories and models, so a lesson is shown to a model
// as data, and only in the account and the repository that it is from, where the same texts could reach a model
// anyway. What looks like a secret is taken out before a lesson is stored and before a text is sent to an Embedder.
// A lesson that was offered often and never helped is not offered any more.
//
// # Lives
//
// A [Book] keeps nothing in memory but when an Embedder failed, and has nothing to close. It may be used by several
// goroutines. What a task teaches is stored just before its end; if its daemon dies in between, the next one stores it
// again, as the same lesson. Its vector is made then, or else by a later search. The package must not know a model, a
// sandbox or SQL.
//
// # Reasons
//
// Only verified tasks teach: what a model says of a failure is worth nothing alone. The
// fingerprint comes first, since it needs no model and explains itself; full text and vectors
// follow, and their ranks are joined, because scores of different kinds cannot be compared.
// Vectors are compared in Go: a scope has 500 lessons at most. No task that is recorded gets
// lessons, since its requests would depend on them.
package lesson
