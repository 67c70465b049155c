// Package daemon is the wiring: it turns a [Config] into a [System] of backends, templates,
// stores, models, engines and servers, serves it, and takes it down in the reverse order. It
// lists everything that is compiled in; no package below it knows which implementations
// exist.
//
//	s, err := daemon.Open(ctx, daemon.Config{DataDir: dir, Idle: -1})
//	...
//	defer s.Close(ctx)
//	err = s.Serve(ctx, ready)
//
// Everything that a server reaches is behind package access, which decides what belongs to the
// caller. Servers and tasks create sandboxes through package quota: the [System] gives no package
// of the product a way to create one around the ceilings of an API key.
// [System.Inside] does, for a program that opened the system to measure or test it.
//
// [Main], [Resident] and [Connect] are the commands that run, serve and find a daemon.
//
// The package must not hold logic, and must not know the commands. How a daemon owns its
// data directory is in package datadir, its life in package service, how it is started in
// package launch.
package daemon
