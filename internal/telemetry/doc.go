// Package telemetry provides what operators need to observe a daemon: metrics for Prometheus, traces over
// OpenTelemetry's protocol, and logs with trace IDs.
//
// Metrics are always counted; a scrape reads them. Traces are recorded only if the standard OTEL_* variables
// set a collector. A trace begins with a request's traceparent header, or with the request, and continues
// through the manager to the first command in the new sandbox, also if that is another request.
//
// # Private data
//
// A label or attribute is a number, an ID of Hortus, or a value of a closed set: never a path, a header, a
// command, an environment, an output, or the text of an error, which may contain any of them. Values that a
// client chose (a method, a status) are first mapped to a closed set, so that a client cannot create
// unlimited series. What libraries write to the standard log has bytes from the network: [Libraries] limits it and
// leaves out what is quoted.
//
// # Lives
//
// A [Telemetry] starts the goroutine that sends traces, if traces are enabled. Close sends the remaining
// traces and ends it. The package must not know a server or a store; it wraps servers, and observes the manager
// through the manager's own interface.
//
// # Reasons
//
// Prometheus's format is what scrapers read, so OpenTelemetry's metrics, a second path to the
// same numbers, are left out. The trace context does not reach the guest: who asks is not its
// business.
package telemetry
