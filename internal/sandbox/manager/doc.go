// Package manager manages the sandboxes of one data directory: it creates, pauses, saves, forks
// and ends them, and adopts those of an earlier daemon.
//
// A [Manager] has parts, each with its own state and few methods. [Planner] resolves requests, [Creator]
// creates sandboxes and keeps guests booted ahead, [Forker] forks them, [Saver] saves them, [Pauser] pauses
// them to disk, [Policies] changes what they may connect to, [Guests] is the one way into them,
// [Sandboxes] finds, pauses and ends them, and [Recoverer] takes over what an ended daemon left. Callers
// are given the parts that they need.
//
// The parts share two things. The table (table.go) has one instance for each sandbox that lives here. An
// instance holds a [life.Sandbox]: its state, its row, and the table that defines the effect of every
// event. The lifecycle (lifecycle.go) changes states: a method fires an event, performs the I/O of the new
// state without a lock, fires the event of its end, and the lifecycle performs the effects that the table
// lists. Commands are in package command, pooled guests in package pool, the choice of backend and limits
// in package choice.
//
// A row is stored before anything is created for a sandbox, and every change is first a row and
// then an event: everything that a crash leaves belongs to a row. One goroutine per sandbox (watch.go)
// watches its machine, its deadline and its limits; Close and Leave wait for it.
//
//	m := manager.New(manager.Config{Owner: owner, Backends: backends, ...})
//	defer m.Close(ctx)
//	m.Recoverer.Recover(ctx, gone)
//	row, err := m.Creator.Create(ctx, api.CreateSandbox{})
//	stream, err := m.Guests.StartExec(ctx, row.ID, api.ExecRequest{Args: []string{"make"}})
//
// The package must not know a concrete backend, how snapshots are kept, a server, SQL, or
// what a sandbox is used for.
package manager
