// Package audit keeps records of the decisions about outgoing connections, and asks people about
// connections that no rule matches.
//
// A [Recorder] queues decisions and writes them to a store in batches. It appends the ones that
// a reader of the sandbox's log must see (denied, failed, waiting, answered) to that log. It
// bounds and sanitizes text that is from the sandbox before anything else reads it. A sandbox
// that makes decisions faster than its limit, or a store that fails, costs records, never
// memory: what is not recorded is counted, and the count is a record of its own.
//
// [Asks] are the open questions. A question is a waiting decision with its ID; the record of
// its answer has the same ID, so a reader of the log knows when it closed.
//
//	r := audit.NewRecorder(audit.Config{Store: db, Events: log, Count: telemetry.Egress})
//	defer r.Close(ctx)
//	asks := audit.NewAsks(audit.AsksConfig{Record: r.Record, Remember: prependRule})
//	defer asks.Close()
//
// A Recorder has one goroutine, which Close ends and waits for. Asks have none: a connection
// waits in the goroutine that asks. Close the gateways first, then the Asks, then the Recorder,
// then the store.
//
// The package must not know a store, a policy or the wire.
package audit
