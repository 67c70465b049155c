// Package code runs pieces of code in sandboxes, one after the other, each with the files, installed
// packages and environment variables of the previous one.
//
// Each piece is a separate process, recorded like any command. The code is sent over the process's input,
// so that it needs no file and is not limited by the size of arguments; its own input is empty. The small
// program that runs the code writes changes of the environment to a file in the sandbox's home directory
// ("~/.hortus-env"), which the next one reads. The host never reads that file, because a sandbox can write
// anything into it.
//
// # Lives
//
// A run uses its caller's goroutine and one that writes the input, which ends with it. If the caller
// disconnects, the code continues until its end or its timeout.
//
// The package must not know HTTP, a store or how sandboxes are created.
package code
