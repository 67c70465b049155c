// Package spawn forks commands from restricted threads, which have only the capabilities
// that the command may have, and the restrictions of package confinement.
//
//	sp, err := spawn.New(cfg, cell)
//	pid, err := sp.Start(&spawn.Command{Identity: user, Path: "/bin/true", Argv: []string{"true"}})
//
// A [Spawner] owns one thread for each identity that needs its own, for as long as the guest
// lives. Other commands are forked on the caller's thread. It does not wait for commands,
// and must not depend on their output, their timeouts or the clients.
//
// The package also sets the limits that commands inherit; see [SetLimits].
package spawn
