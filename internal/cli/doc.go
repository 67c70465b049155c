// Package cli is the command line of Hortus: it turns arguments into calls of the
// client package and answers into text, JSON and exit codes.
//
// It speaks to a daemon through client alone and must not know how one is found
// or started (that is handed to [Main]), nor any part of the daemon: what a
// command can do, every other client can do.
//
// The verified program's or the command's own output goes to stdout, byte for
// byte; everything else goes to stderr. What came from a guest or a model is made
// harmless before it is shown in a line of Hortus's own.
//
// Nothing here outlives Main: every goroutine that a command starts is waited for
// or blocked in a read of stdin, which belongs to the process.
package cli
