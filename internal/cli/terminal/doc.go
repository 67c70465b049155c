// Package terminal is the terminal and the signals of this process: raw mode, changes of
// size, and Ctrl-C; and the browser of the person at it. It must not know commands.
//
//	in := terminal.CatchInterrupts(a)
//	defer in.Close()
//	ctx, done := in.Cancel(ctx, nil) // the first Ctrl-C cancels, the second ends the process
//	defer done()
//
// Close and restore give the signals and the terminal back as they were.
package terminal
