// Package process is the backend for code that its user trusts: commands run as
// ordinary processes of this machine, with a scrubbed environment, a temporary
// directory of their own, and limits where a process can be given them.
//
// It isolates nothing. A command can read what the daemon's user can read and
// open any connection, and its report says so (CapIsolated, CapPrivateFiles and
// CapNoNetwork are missing); "auto" never chooses it.
//
// A machine is one guest process in its own session, which is the subreaper of
// all that it starts, and a directory below Config.Dir. Every process of it
// carries the sandbox's id in its environment, and that mark, together with the
// line of descent, is how Kill and Reclaim find them all. Code that removes the
// mark and daemonises can hide; code that would do so does not belong here.
//
// The package must not know another backend, the manager's internals, or what
// commands mean.
package process
