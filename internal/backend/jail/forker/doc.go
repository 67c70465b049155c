// Package forker is a small process that forks the first processes of sandboxes for a
// daemon, and the daemon's end of it.
//
// When a process forks without sharing its memory, as is required for a user namespace whose ids
// it writes, the kernel copies its page tables and write-protects every page, and each later
// write to a page costs a fault. That makes many concurrent starts slower by a third. The
// forker has little memory and is otherwise idle.
//
// # What it does
//
// It receives an [Order] in a packet over the socket that it was started with, forks on a
// dedicated thread, and answers on a socket that came with the order, with a descriptor of
// the new process. For the clone the thread takes the user id to which the kernel charges
// the new user namespace, see [Order]; the forker's own soft limits bound what is charged.
// For an ordinary user the forker runs in its own user namespace, whose limits hold for all
// namespaces that it creates, see [Config].
//
// It reaps the processes that it forked, and reports their exit status on the socket of
// their order.
//
// # How it lives and dies
//
// The daemon starts it with the first order and restarts it if it has ended. It ends when
// its socket is closed, which includes the end of the daemon. The processes that it forked
// then keep running, and another process reaps them: the daemon learns their exit status
// only if the kernel tells.
//
//	f := forker.New(forker.Config{Program: guest, Argv0: argv0, Null: null})
//	defer f.Close()
//	child, err := f.Fork(order, controlSocket)
//
// # What it must not know
//
// Sandboxes, and who asks. It has the daemon's rights, but no input except the inherited
// socket, and runs no code but this package, package cgroup and the standard library. No
// guest can address it: it is in none of their namespaces.
//
// # Reasons
//
// The clone takes the sandbox's first id so that per-user quotas of the kernel (inotify,
// signals, timers) are charged to the sandbox and not to root: one sandbox could take all of
// the host's otherwise. An ordinary user has one id only, so all of that user's sandboxes share
// half of its quota. A child of the daemon itself (CLONE_PARENT) is not possible with clone3
// and Go's standard library.
package forker
