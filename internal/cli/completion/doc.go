// Package completion completes command lines for bash, zsh and fish. The scripts of the
// shells call the hidden command of [Name] with the words so far, and [Complete] prints the
// candidates:
//
//	hortus __complete -- sandbox kill s
//
// It asks a daemon that runs already for identifiers, for a second at most, and never starts
// one. A failure completes nothing and is no error. It must not run a command.
package completion
