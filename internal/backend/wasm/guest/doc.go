// Package guest is the guest of a sandbox without a kernel: a process of the host that serves the
// protocol of guests, keeps the files of the sandbox in its memory, and runs WebAssembly modules.
//
//	os.Exit(guest.Main()) // in a process that the backend started, see package birth
//
// Commands are run by a process each (package run), never by this one: what a module breaks is its
// own process. The parts that do not depend on how a command runs are those of every guest:
// hortus.dev/internal/guest/process moves output and keeps records, exec and rpc serve the
// requests. What is different is [Programs], which finds the module of a command, and [Files].
//
// A sandbox has no shell and no programs of a root file system. A command is an interpreter that
// Hortus brings (qjs, python3) or the path of a WASI module; everything else is refused with an
// error that says so. There are no terminals and no ports.
//
// # Lifetimes
//
// [Main] receives its configuration over the control socket, serves, reports, and waits for "go".
// It then lives until it is killed. One process is started ahead for the next command. The
// goroutine that serves files to a process ends with that process.
//
// The package must not know a manager or a store, or any path of the host but those of its
// [Settings].
package guest
