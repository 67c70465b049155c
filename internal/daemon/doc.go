// Package daemon is the wiring: it turns a [Config] into a [System] of backends,
// templates, stores, models, engines and doors, runs it, and takes it down in the
// opposite order. It lists everything that is compiled in; nothing below it knows
// which implementations exist.
//
// # One owner per data directory
//
// A data directory belongs to at most one daemon, the one that holds the lock of
// its file "lock". The kernel gives the lock up when the process ends, however it
// ends, so a lock that can be taken proves that every earlier owner is gone; only
// then are rows of earlier owners touched. A pid is never evidence.
//
// # The resident daemon
//
// [Connect] finds the daemon of a data directory or starts one: the same
// executable, detached, which listens on a unix socket in the data directory.
// The daemon leaves when nobody is connected, no sandbox and no task lives, and a
// moment has passed.
//
// The package must not hold logic of its own beyond wiring, ownership and the
// daemon's life, and must not know the commands.
package daemon
