// Package sandbox is the contract of isolation.
//
// # The contract
//
// A [Backend] is one way to boot a guest: it probes the host, starts a [Machine] from a
// [Spec], and reclaims what an earlier owner left. Everything else that a sandbox can do
// (commands, files, terminals) is written once, in the guest, and reached over the machine's
// link. A backend therefore never sees a command, and a Spec never holds a host path.
//
// A backend that cannot enforce a limit says so in its report before anything starts; it
// never accepts a Spec and ignores a part of it.
//
// # The life of a machine
//
//	m, err := backend.Start(ctx, spec) // on an error nothing is left
//	conn, err := m.Link().Open(ctx)    // a stream to the guest's server
//	err = m.Pause(ctx)                 // every process is frozen
//	err = m.Resume(ctx)
//	proof, err := m.Kill(ctx)          // nil only if no process is left
//	<-m.Done()                         // closed by Kill, or when the guest ended by itself
//
// Everything else is optional, and each is an interface: a [Preparer] boots guests ahead of
// requests, a [Saver] and a [Restorer] save and restore machines, an [Adopter] takes over the
// machines of a process that has ended, a [Reclaimer] finds leftovers, and a [StartLimiter]
// has its own start timeout.
//
// Arguments have fixed names: id is a sandbox's ID, spec is what a backend starts, m is a
// machine, dir is a directory of the caller, need is an estimate in bytes or a [Need].
//
// [Rows], [Log], [Templates], [Snapshots], [Admission] and [Watcher] are what the manager
// (package manager) requires from others. Its states are in package life, its suite for backends
// in package sandboxtest.
//
// The package must not know a concrete backend, how snapshots are kept, a server, SQL, or what
// a sandbox is used for.
package sandbox
