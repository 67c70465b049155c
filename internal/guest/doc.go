// Package guest is the program inside a sandbox: it runs commands and terminals, keeps
// their output, moves files and reports resource use, for a host that connects to it and
// uses the protocol of hortus.dev/api/envd.
//
//	os.Exit(guest.Main()) // in a process that a backend started, see package birth
//
// This package puts the parts together and follows the host's orders. Requests are served
// by rpc, exec, files, files/watch, port and metrics; commands are started by process, spawn
// and confinement; identity selects the user that a request acts as, and credential
// switches to it. Outgoing connections of the sandbox end at capture and resolver, which ask
// the host over streams of outbound.
//
// # Dependencies
//
// It must not depend on a backend, a manager or a store, or on its host except for the
// sockets that it inherits. It has few dependencies (for HTTP and RPC only net/http's
// parser), because it is a small static binary whose memory counts once per sandbox.
//
// # Lifetimes
//
// [Main] receives a configuration over the control socket, serves, reports, and waits for
// "go". After that it lives until it is killed. As PID 1 of a pid namespace it reaps all
// processes.
//
// A guest that was started with [birth.ArgStdio], on a kernel of its own, has no listener:
// [Server.Attend] takes its streams from the control socket. On a QuietPacket it ends every
// connection, waits until each descriptor is closed, and answers; then its kernel can be
// saved. Commands continue and their output stays in their logs. Such a kernel has no stage
// before the guest, no Landlock and no enforced RLIMIT_NPROC: package machine makes the files,
// memory watches the whole kernel, and confinement.Cell keeps commands from the guest.
//
// # Privilege
//
// The guest has its own uid and few capabilities, so that commands can neither signal nor
// trace it. It clears ambient capabilities on all threads before it starts anything. Work on
// files is done with the identity's own ids, so that the kernel decides what it may do. If
// the guest and its commands share a uid, and for commands with capabilities, Landlock
// separates them: commands are forked into a domain that does not contain the guest.
package guest
