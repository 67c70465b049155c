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
//
// # Reasons
//
// Landlock restricts what the guest starts and not the whole sandbox: a ruleset allows
// directories and cannot take a part of them back, and root inside may create any directory.
// One thread for each identity restricts itself and forks all of its commands, because domains
// side by side cannot signal each other. The identity user is not confined where its uid and
// missing capabilities protect the guest already.
//
// Netlink sockets are counted because no control group counts the answers that the kernel keeps
// for them (1,000 sockets held 426 MB). The guest opens them for commands, by seccomp's user
// notification, and counts them in an epoll set, out of which the kernel takes a socket with
// its last descriptor. To refuse them would break Node; /proc/net/netlink lists bound sockets
// only.
package confinement
