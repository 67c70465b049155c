// Package run is the process that runs one WebAssembly module: the last thing between the module
// and the host.
//
//	os.Exit(run.Main()) // in a process that the guest of a sandbox started
//
// The guest starts such a process before there is a command for it, so that its interpreter is
// loaded when the command comes, as an [Order] with the descriptors of the command's standard
// input, output and error. The process then compiles the module, gives up every system call that
// the Go runtime does not need, runs the module, and ends with its exit code.
//
// The module has the files of the sandbox, which the guest serves on a socket (package memfs),
// clocks, random numbers, its arguments and its environment. It has no sockets and starts no
// processes: WASI has no call for it. Its memory is taken from the budget of the sandbox before
// it is allocated. Nothing in this process stops a module that does not end: the guest kills the
// process, which costs the module no speed.
//
// Compiled code of the built-in interpreters is cached for all sandboxes, and that of other
// modules for their sandbox only: what a hostile module could change is never read by another
// sandbox.
//
// The package must not know a backend or the protocol of guests.
package run
