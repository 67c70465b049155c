// Package offline is a model without a network: deterministic, small, and honest
// about what it cannot do.
//
// It answers three kinds of requests for a structured output, told apart by its
// name. An ExecutionPlan comes from a catalogue of known tasks: a sentence
// matches one only when every word of it is accounted for, so that a question is
// declined rather than answered wrongly. A CodeArtifact comes from the
// catalogue's programs in Python and JavaScript, with the plan's parameters. A
// Diagnosis comes from package diagnosis, by patterns of errors.
//
// A request with tools and without an output is work on a repository, which package
// repair does.
//
// Everything else is declined at once with KindDeclined. The package must not
// know roles, sandboxes or tasks; it runs a program only through the tools that a
// request offers.
//
// A [Model] is read-only after New and safe for several goroutines.
package offline
