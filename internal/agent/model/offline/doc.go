// Package offline is a model without a network: deterministic, small, and explicit about what it cannot do.
//
// It answers three kinds of requests for a structured output, by its name. An ExecutionPlan comes from a
// catalogue of known tasks: a sentence matches a task only if every word of it is used, so that an unknown
// request is declined instead of answered wrongly. A CodeArtifact comes from the catalogue's programs in Python
// and JavaScript, with the plan's parameters. A Diagnosis comes from package diagnosis, by patterns of errors.
//
// A request with tools and without an output is work on a repository, which package repair does.
//
// Everything else is declined immediately with KindDeclined. The package must not know roles, sandboxes or
// tasks; it runs a program only through the tools of a request.
//
// A [Model] is read-only after New and safe for several goroutines.
package offline
