// Package task runs requests and records them.
//
// An [Engine] validates a request, stores it, runs its pipeline in a separate goroutine and appends each
// event to the event log. A task is pending, then running, then done, which is final. Its task.finished event
// is appended exactly once and is the last of its stream: the goroutine that ends a task, its own or a
// recovery, is then the only writer.
//
// # Lives
//
// A task's goroutine starts in Create and ends with its pipeline. Cancel ends it early and waits for it; Close
// cancels all and waits for all. Recover takes over the tasks of owners that have provably ended: Resume lets those
// continue that have a journal (package journal), the others are lost. The complete
// output of an attempt is in files below the engine's folder, which must not be removed before the task is
// done; the row remains without them.
//
// The package must not know a server, SQL, a concrete model or how sandboxes are created.
//
// # Reasons
//
// A reply to a question is a new task that continues the work: a task that is done never
// changes. The workspace goes to the new task under its lock, so of two replies one fails. The
// history is a list of short forms between marks of untrusted text; the reply has the authority
// of the request. Only the account of the task may reply.
package task
