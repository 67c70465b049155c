// Package tool holds what an agent may do to a repository in a sandbox: run
// commands, look at files, change them, search, and say that it is done.
//
// Every tool decodes its input strictly, bounds what it reads and what it says,
// and answers a mistake with a text that tells what to do instead. Only the end of
// the sandbox or of the context is an error. What a command prints is cut to its
// beginning and its end; the whole is kept in an [OutputStore] under a name that
// view and search understand.
//
// Everything that a tool touches it touches through [Box]: paths are cleaned as
// text and resolved by the guest alone. Parsers that could not be bounded run
// inside the sandbox too (Python's, JavaScript's); those of Go, JSON and YAML run
// here, behind bounds of size and depth.
//
// # Lives
//
// A [Set] belongs to one agent and is used from one goroutine. It starts none
// itself. Its background jobs live in the sandbox until they end, are killed, or
// [Set.Close] ends them. [Files] keeps whole outputs in a directory that belongs to
// its owner.
//
// The package must not know which backend a sandbox has, what a task is, which
// model calls, or how its history is kept.
package tool
