// Package anthropic is a model behind Anthropic's Messages API, or behind any
// server that speaks it.
//
// Every call streams. A structured answer is requested as the call of a tool of
// that name; the choice is left to the model, since current models refuse a
// forced one, so an answer in plain text is taken as well: anyone who asked parses
// it. The system text and the tools are marked for the prompt cache; in a
// conversation, and where tools are offered, the last two turns of the user are, too.
//
// The package must not know roles, sandboxes or tasks, reads no environment and
// tries nothing twice. A [Model] is read-only after New and safe for several
// goroutines; a call ends when its context does, and within the limits of
// package hosted.
package anthropic
