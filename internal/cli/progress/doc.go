// Package progress shows on stderr what a command does: lines, and on a terminal a status
// line for what takes longer than a second. It must not know what is shown.
//
//	p := progress.New(env, quiet, "gvisor")
//	defer p.Close()
//	p.Say("compiling")
//	p.Doing("building gVisor")
//
// On a terminal it has one goroutine, which Close ends.
package progress
