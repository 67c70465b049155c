// Package offline is a model without a network: deterministic, small, and honest
// about what it cannot do.
//
// It answers three kinds of requests, told apart by the name of the output that
// is wanted. An ExecutionPlan comes from a catalogue of known tasks: a sentence
// matches one only when every word of it is accounted for, so that a question is
// declined rather than answered wrongly. A CodeArtifact comes from the
// catalogue's programs in Python and JavaScript, with the plan's parameters. A
// Diagnosis comes from patterns of errors; it corrects what the error names and
// nothing else, and asks where only a person can know.
//
// Everything else is declined at once with KindDeclined. The package must not
// know roles, sandboxes or tasks; it never runs a program.
//
// A [Model] is read-only after New and safe for several goroutines.
package offline
