// Package spawn forks commands from restricted threads: without capabilities that the
// command must not have, and with the restrictions of package confinement.
//
//	sp, err := spawn.New(cfg, cell)
//	pid, err := sp.Start(&spawn.Command{Identity: user, Path: "/bin/true", Argv: []string{"true"}})
//
// A [Spawner] owns one thread for each identity that needs one of its own, for as long as
// the guest lives. Other commands are forked on the caller's thread. It does not wait for
// commands, and knows nothing of their output, their lifetimes or the clients.
//
// The limits that commands inherit are set here, too; see [SetLimits].
package spawn
