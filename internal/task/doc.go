// Package task runs requests and records them.
//
// An [Engine] checks a request, stores it, runs its pipeline in a goroutine of
// its own and appends each fact to the event log. A task is pending, running,
// then done, and never changes after that. Its task.finished event is appended
// exactly once and is the last of its stream: anyone who ends a task, its own
// goroutine or a recovery, is the only writer by then.
//
// # Lives
//
// A task's goroutine begins in Create and ends with its pipeline; Cancel ends it
// early and waits for it; Close cancels all and waits for all. A task whose
// owner is provably gone is ended by Recover as lost. The whole output of an
// attempt lives in files below the engine's folder, which nobody may remove
// before the task is done; the row stays when they go.
//
// The package must not know a door, SQL, a concrete model or how sandboxes are
// made.
package task
