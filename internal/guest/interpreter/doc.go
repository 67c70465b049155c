// Package interpreter is the program inside a sandbox that runs code in contexts: what one piece
// of code defines, the next one has. It serves HTTP on a loopback port, in the form that clients
// of code interpreters know.
//
//	os.Exit(interpreter.Main()) // in a process whose argument zero is Argv0
//
// A context is a process of its own, python3, node or bash, that runs one of the three programs
// beside this file (kernel.py, kernel.cjs, kernel.sh). Requests reach it on descriptor 3, and it
// answers on descriptor 4, so that what the code prints is only that. A context has one execution
// at a time; others wait. It lives until it is deleted, restarted, or ends by itself: the next
// execution then starts it again, without what it had. The default context of a language begins
// with the first code in it.
//
// All of it lives inside of the sandbox, with the sandbox's own rights, and is saved, restored and
// forked with its memory. The package must not depend on the guest's other parts or on a host.
package interpreter
