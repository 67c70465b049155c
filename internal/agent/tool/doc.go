// Package tool contains the tools of an agent for a repository in a sandbox: run commands, read files, change
// them, search, and finish.
//
// Every tool decodes its input strictly, limits what it reads and returns, and answers a mistake with a text
// that explains the correction. Only the end of the sandbox or of the context is an error. The output of a
// command is reduced to its beginning and its end; the complete output is stored in an [OutputStore], under a
// name that view and search accept.
//
// Tools use the sandbox only through [Box]: paths are cleaned as text and resolved by the guest only. Parsers
// that cannot be limited run inside the sandbox (Python's, JavaScript's); those of Go, JSON and YAML run here,
// with limits of size and depth.
//
// # Lives
//
// A [Set] belongs to one agent. Calls of its tools in [Reads] may come from several goroutines, all others from one. It starts none itself. Its background jobs run
// in the sandbox until they end, are killed, or [Set.Close] ends them. [Files] stores complete outputs in a
// directory that belongs to its owner.
//
// The package must not know the backend of a sandbox, what a task is, which model calls, or how its history is
// stored.
package tool
