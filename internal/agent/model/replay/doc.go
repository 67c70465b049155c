// Package replay records the requests and answers of any model, and answers from such a recording without a
// network: for tests, and for bug reports that another person can run.
//
// A recording is text, one JSON value per line: a header, then one line for each exchange, in the order in
// which they ended. A line contains the request and its fingerprint, the answer with its usage, the deltas
// (including retries), and the error if there was one. Lines are only appended, so that a process that dies
// leaves a recording with at most its last line truncated.
//
// Secrets are removed before anything is written: the values that the recorder was given, and text in the form
// of a key (see package redact). Requests are compared in the form without secrets, and without values that differ
// in every run: Hortus' own IDs and memory addresses.
//
// The package must not know roles, tasks, files or what an answer is used for. A recording is untrusted: every
// length is limited, and a damaged one is refused.
//
// # Lives
//
// A [Recorder] writes to what it was given and does not close it. A [Recording] is read-only. A [Player] counts
// the answers that it gave, so each run has its own. All are safe for several goroutines, and none starts one.
//
// # Reasons
//
// What is recorded is the contract of models and not HTTP, which would tie a recording to one
// vendor. A request is found by the fingerprint of its form without secrets; a miss is an error
// that names the nearest exchange, and no similar answer is used. The names of models are not
// part of the fingerprint.
package replay
