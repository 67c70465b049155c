// Package confinement restricts threads and the commands that are forked from them, so that
// a command can neither attack the guest nor exhaust the host.
//
// It has three mechanisms, which restrict the calling thread permanently:
//
//	Ruleset   Landlock: no signals to the guest, no tracing of it, no device nodes
//	Netlink   limits the number of netlink sockets that all commands have open
//	Cell      on a kernel of the guest's own: a control group, a changed root, a seccomp
//	          filter that keeps commands from the guest's uid
//
//	rules, err := confinement.NewRuleset()
//	// On a locked thread that will fork commands:
//	err = rules.Restrict()
//
// If the kernel lacks a feature, the feature is skipped where this is documented, and is an
// error otherwise. The goroutines of a [Netlink] end with the guest. Package spawn starts
// the commands. The package must not depend on requests.
package confinement
