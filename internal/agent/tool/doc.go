// Package tool contains the tools of an agent for a repository in a sandbox: run commands, read files, change
// them, search, and finish.
//
// Every tool decodes its input strictly, limits what it reads and returns, and answers a mistake with a text
// that explains the correction. Only the end of the sandbox or of the context is an error. The output of a
// command is reduced to its beginning and its end; the complete output is stored in an [OutputStore], under a
// name that view and search accept.
//
// Tools use the sandbox only through [Sandbox]: paths are cleaned as text and resolved by the guest only. Parsers
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
//
// # Reasons
//
// There is a process for each command and no shell session: a session has to guess when a
// command ended, breaks when it is killed, and hides state. JavaScript is parsed in the
// sandbox, because the parsers that could be linked recurse without a bound and would end the
// daemon. Numbers as strings are accepted, unknown arguments are refused. Create over a file
// that was not viewed is refused, the one call that can lose work.
//
// What is in every request is short, because it is paid each time: a schema says what its
// description need not. What the history shows already is not sent again. TestTrajectories
// compares tokens with recorded runs of mini-swe-agent: a run is a table of sizes, its texts
// belong to others; each recorded command becomes the tool that does it, one call in an answer.
// What a model would do with these tools it does not show.
package tool
