// Package confinement restricts threads, and with them the commands that are forked from
// them, so that a command can neither reach the guest nor use up the host.
//
// Three mechanisms, each restricting the calling thread for good:
//
//	Ruleset   Landlock: no signals to the guest, no tracing of it, no device nodes
//	Netlink   bounds the netlink sockets that all commands have open
//	Cell      on a kernel of the guest's own: a control group, a changed root, a seccomp
//	          filter that keeps commands from the guest's uid
//
//	rules, err := confinement.NewRuleset()
//	// On a locked thread that will fork commands:
//	err = rules.Restrict()
//
// A feature that the kernel lacks is skipped where this is documented, and is an error
// otherwise. The goroutines of a [Netlink] end with the guest. The package does not start
// commands, which is spawn's task, and knows no request.
package confinement
