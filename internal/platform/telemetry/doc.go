// Package telemetry shows what a daemon does to anyone who operates it: metrics for
// Prometheus, traces by OpenTelemetry's protocol, and logs that name their trace.
//
// Metrics are counted always; a scrape reads them. Traces are recorded only where the
// standard OTEL_* variables name a collector. A trace begins with a request's
// traceparent header, or with the request, and reaches over the manager to the first
// command in the sandbox that it made, also where that is another request.
//
// # What is never told
//
// A label or attribute is a number, an identifier of Hortus's own, or a word of a
// closed set: never a path, a header, a command, an environment, an output, nor the
// text of an error, which may hold any of them. What a client chose (a method, a
// status) is mapped to a closed set first, so that nobody can make series without end.
//
// # Lives
//
// A [Telemetry] starts the goroutine that sends traces, where there are any. Close
// sends what is left and ends it. The package must not know a door or a store; doors
// are wrapped by it, and the manager is watched through the manager's own interface.
package telemetry
