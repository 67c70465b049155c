// Package model is the contract of language models: messages in, a message out,
// streamed, with tool calls, usage and cost.
//
// Each implementation is one folder below (offline, and hosted ones). An
// implementation must not know roles, sandboxes or tasks: what a role wants is
// said in the request, by its messages and by the name and JSON schema of the
// output that it expects.
//
// A [Model] is safe for use by several goroutines and holds nothing that needs
// closing. A call ends when its context does.
package model
