// Package uptime keeps the deadlines of sandboxes by the uptime of the host, besides the wall clock,
// which may be set while no daemon runs.
//
//	clock := uptime.Clock{Now: time.Now, Uptime: machine.Uptime()}
//	rows := uptime.Rows{Rows: store, Clock: clock}
//	left := clock.Left(row) // of a sandbox of an earlier daemon
//
// Both are values and have nothing to close. The package must not know the manager.
package uptime
