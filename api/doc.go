// Package api holds the words that every part of Hortus shares: typed
// identifiers, the closed set of error kinds, the states of sandboxes, execs,
// tasks and attempts, the messages that the pipeline's roles exchange, and the
// events of the log.
//
// It is plain data with JSON names. It imports the standard library only and
// must not know any other package of the project: the public SDK, the daemon,
// the stores and the servers all build on it, so a type here is a promise on the
// wire. Fields may be added; a field's meaning and JSON name do not change.
//
// Durations travel as whole milliseconds (fields that end in MS), sizes as
// bytes, instants as RFC 3339 in UTC.
package api
