// Package replay records what any model was asked and answered, and answers from
// such a recording without a network: for tests, and for reports of defects that
// another person can run.
//
// A recording is text, one JSON value a line: a header, then one line for each
// exchange, in the order in which they ended. A line holds the request and its
// fingerprint, the answer with its usage, the deltas (retries among them), and
// the error where there was one. It is only ever appended to, so that a process
// that dies leaves a recording that is cut at most in its last line.
//
// Secrets are taken out before anything is written: the values that the recorder
// was told, and what looks like a key (see [Redactor]). Requests are compared in
// the form without secrets, and without what differs from run to run by itself:
// Hortus' own identifiers and addresses of memory.
//
// The package must not know roles, tasks, files or what an answer is used for.
// A recording is read as the untrusted bytes that it is: every length is bounded,
// and what is damaged is refused.
//
// # Lives
//
// A [Recorder] writes to what it was given and does not close it. A [Recording]
// is read-only. A [Player] counts which answers it gave, so each run has its own.
// All are safe for several goroutines, and none starts one.
package replay
