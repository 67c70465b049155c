// Package program finds programs, says in a line why one failed, and talks to those that answer lines by
// lines, on this host and in a sandbox.
//
//	talk, err := program.Start(exec.CommandContext(ctx, "python3", "-c", text))
//	...
//	defer talk.Close()
//	answer, err := talk.Ask(ctx, "5")
//
// A program of the host ends with Close or with the context of its command, one in a sandbox also with
// the sandbox. The package must not know what is measured.
package program
