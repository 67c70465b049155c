// Package sandbox is the contract of isolation.
//
// A [Backend] is one way to boot a guest, and a [Machine] is a booted one: backend.go tells the
// whole contract, with an example for each part of a machine's life.
//
// A backend that cannot enforce a limit says so in its report before anything starts; it
// never accepts a Spec and ignores a part of it.
//
// [Rows], [Log], [Templates], [Snapshots], [Admission] and [Watcher] are what the manager
// (package manager) requires from others. Its states are in package life, its suite for backends
// in test/sandboxtest.
//
// The package must not know a concrete backend, how snapshots are kept, a server, SQL, or what
// a sandbox is used for.
package sandbox
