// Package manager holds the sandboxes of one data directory: it makes, pauses, saves, forks
// and ends them, and takes over those of a daemon that is gone.
//
// Each sandbox has one [life.Sandbox]: its state, its row, and the table that says what a
// request or the end of some work does to it. A method fires an event, performs the I/O
// that the new state stands for without holding a lock, fires the event of its end, and
// performs the effects that the table names (core.go). Commands are in package command,
// guests that are booted ahead in package pool, the choice of backend and limits in package
// choice.
//
// A row is stored before anything is done for a sandbox, and every change is a row first
// and an event after: what a crash leaves behind has a row that leads to it. One goroutine
// per sandbox watches its machine, its deadline and its limits; Close and Leave wait for it.
//
//	m := manager.New(manager.Config{Owner: owner, Backends: backends, ...})
//	defer m.Close(ctx)
//	m.Recover(ctx, gone)
//	box, err := m.Create(ctx, api.CreateSandbox{})
//
// The package must not know a concrete backend, how snapshots are kept, a door, SQL, or
// what a sandbox is used for.
package manager
