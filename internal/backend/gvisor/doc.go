// Package gvisor is the backend whose guests run on a kernel of their own: gVisor's,
// an ordinary program that answers the system calls of the sandbox itself. It needs
// no KVM. A sandbox is born in the same jail as a container's: what stands between
// the code in it and the host's kernel is gVisor's kernel, gVisor's own system call
// filter, and everything that holds a container.
//
// # What runs
//
// Inside the jail a keeper (package jail/keeper) starts gVisor's command runsc, which
// is embedded in release builds: it makes the sandbox's kernel, the sentry, and the
// gofer, which opens the files of the layers for it. Both are unprivileged on the
// host, in user, pid, mount, network and ipc namespaces without anything in them, in
// the sandbox's control groups. The guest is the first process on that kernel; its
// one socket comes from the keeper, and over it come the streams of the link.
//
// What is written to the root lies in the sentry's memory, bounded by the limit of
// the disk, and is a part of every snapshot. Ids inside are the sentry's own, so that
// root and user are there for an ordinary user's daemon too.
//
// # Snapshots
//
// Save has the guest let go of its streams, and the sentry write its state, memory
// and processes into files. Restore starts a fresh kernel that reads them. A snapshot
// names the version of the kernel, the guest and the features of the processor, and
// can be restored only where all are the same.
//
// # What it must not know
//
// Commands, files and terminals, which the guest serves; rows, deadlines and events,
// which the manager keeps; how a jail is built.
//
// # Known limits
//
// The limit of memory is held by the guest, which kills the command that uses most;
// what is faster than its look meets the host's limit, some megabytes above, and ends
// the sandbox whole.
package gvisor
