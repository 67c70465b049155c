// Package privilege takes from a root daemon what it never uses: capabilities, system
// calls, and the privileges of setuid programs that it starts.
//
// [Drop] is for the start of a program: what it takes away, it takes from one thread,
// which then executes the program anew, so that every thread and every child has the
// rest alone. The package knows nothing of what the daemon does; the lists are checked
// by tests that run sandboxes under them (test/story TestPrivileges, test/conformance).
package privilege
