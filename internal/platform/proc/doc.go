// Package proc reads and ends processes of the host, for backends and the store of workspaces: identities that
// survive the reuse of a pid, resource usage of a process tree, and the end of a
// process that need not be a child of this one.
//
// It must not know sandboxes, control groups, or why a process is watched.
//
// A [Watch] holds a pidfd until Close; everything else holds nothing.
//
//	id, err := proc.Identify(pid)  // while it is known to be the right one
//	...
//	if id.Alive() { err = id.Kill(ctx) }
package proc
