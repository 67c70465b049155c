// Package sandbox is the contract of isolation and the manager that holds
// sandboxes.
//
// # The contract
//
// A [Backend] is one way to boot a guest: it probes the host, starts a [Machine]
// from a [Spec], and reclaims what an earlier owner left. Everything else that a
// sandbox can do (commands, files, terminals) is written once, in the guest, and
// reached over the machine's link. A backend therefore never sees a command and
// a Spec never holds a host path.
//
// A backend that cannot enforce a limit says so in its report before anything
// starts; it never accepts a Spec and ignores a part of it.
//
// # Lives
//
// The [Manager] owns every sandbox of one data directory: its identifier, its
// row, its deadline, its commands. A sandbox is starting until its guest
// answered, running until it is killed, expires or is lost, and each change is a
// row first and an event after. A machine's end is seen by one goroutine of the
// manager, which Close waits for.
//
// A sandbox that is paused to disk has a row and a snapshot and no place in the
// manager: it outlives it. Where a save cuts the streams of commands, their readers
// take them up again at the byte that comes next; see gate.
//
// The package must not know a concrete backend, how snapshots are kept, a door,
// SQL, or what a sandbox is used for. Its test suite for backends is in sandboxtest.
package sandbox
