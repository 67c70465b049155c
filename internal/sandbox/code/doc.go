// Package code runs pieces of code in sandboxes: in a language, one after the other,
// with files, installed packages and environment variables as the last one left them.
//
// Each piece is a process of its own, recorded like any command. Its text travels
// over the process's input, so that it needs no file and no space in an argument list;
// its own input is empty. What it changes in its environment is written down by the
// small program that runs it, in the sandbox's home directory ("~/.hortus-env"), and
// read there by the next one. The host never looks at it: in a sandbox there is
// nothing that could be believed.
//
// # Lives
//
// A run takes its caller's goroutine and one that writes the input, which ends with
// it. Where the caller goes away the code goes on to its end or its timeout.
//
// The package must not know HTTP, a store or how sandboxes are made.
package code
