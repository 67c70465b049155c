// Package manager manages the sandboxes of one data directory: it creates, pauses, saves, forks
// and ends them, and adopts those of an earlier daemon.
//
// Each sandbox has one [life.Sandbox]: its state, its row, and the table that defines the effect
// of every event. A method fires an event, performs the I/O of the new state without a lock,
// fires the event of its end, and performs the effects in the table (core.go). Commands are in
// package command, pooled guests in package pool, the choice of backend and limits in package
// choice.
//
// A row is stored before anything is created for a sandbox, and every change is first a row and
// then an event: everything that a crash leaves belongs to a row. One goroutine per sandbox
// watches its machine, its deadline and its limits; Close and Leave wait for it.
//
//	m := manager.New(manager.Config{Owner: owner, Backends: backends, ...})
//	defer m.Close(ctx)
//	m.Recover(ctx, gone)
//	box, err := m.Create(ctx, api.CreateSandbox{})
//
// The package must not know a concrete backend, how snapshots are kept, a server, SQL, or
// what a sandbox is used for.
package manager
