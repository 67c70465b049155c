// Package gvisor is the backend whose guests have their own kernel: gVisor's, an ordinary program
// that implements the system calls of the sandbox itself. It does not need KVM. A sandbox is
// started in the same jail as a container: between its code and the host's kernel are gVisor's
// kernel, gVisor's own system call filter, and everything that contains a container.
//
// # What runs
//
// Inside the jail a keeper (package jail/keeper) starts gVisor's command runsc, which is embedded
// in release builds. It creates the sandbox's kernel, the sentry, and the gofer, which opens the
// files of the layers for it. Both are unprivileged on the host, in empty user, pid, mount,
// network and ipc namespaces and in the sandbox's control groups. The guest is the first process
// on that kernel; its only socket comes from the keeper, and transfers the streams of the link.
//
// What is written to the root is in the sentry's memory, limited by the disk limit, and part of
// every snapshot. Ids inside exist in the sentry only, so that root and user also exist for an
// ordinary user's daemon.
//
// # Snapshots
//
// For Save the guest closes its streams, and the sentry writes its state, memory and processes
// into files. Restore starts a new kernel that reads them; its private memory refers to the file
// with the pages until it is written. The image of a fork has no private memory: its kernels
// refer to that of the parent, which copies what it writes. A snapshot records the version of the
// kernel, the guest and the features of the processor; it can be restored only if all of them
// are the same.
//
//	b, err := gvisor.New(gvisor.Config{Jail: jailConfig, Tools: dir, Version: v, GuestDigest: d})
//
// # What it must not know
//
// Commands, files and terminals, which the guest serves; rows, deadlines and events, which the
// manager keeps; how a jail is built.
//
// # Known limits
//
// The guest enforces the memory limit: it kills the process that uses most. Until then the kernel
// delays what allocates more. The kernel's own memory, such as that of files without content, is
// not part of it: the host's limit, some megabytes above, ends the whole sandbox.
package gvisor
