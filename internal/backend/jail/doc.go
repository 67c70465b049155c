// Package jail runs a first process in its own namespaces and control groups, over read-only
// layers, and manages its life. It is the base of two backends: container, whose first
// process is the guest, and gvisor, whose guest has its own kernel. It is pure Go and needs
// no daemon, no runc and no setuid helper.
//
// # Parts
//
//	jail           starts, pauses, saves, restores, adopts and ends machines
//	  launch       makes the first process and tells it what to become
//	  probe        tries what this host can do
//	  diagnosis    explains to people why something does not work here
//	  child        the control socket of a first process
//	  workdir      /workspace and the limit of its disk
//	  image        the files of a saved sandbox
//	  forklayer    mounts of what forks share
//	  rundir       the run directory of a machine, by which another daemon finds it
//	  ids          user ids and ranges of them
//	  initns, keeper                    run inside: the stage before the guest
//	  forker, cgroup, seccomp, upper    one mechanism of Linux each
//
// # What contains a sandbox
//
//   - User, pid, network, mount, ipc, uts, cgroup and time namespaces. As root every
//     sandbox leases 65,536 ids, and root inside is an unprivileged id outside. As an
//     ordinary user a single id is mapped, and the only identity is user.
//   - Its own root: read-only layers below an overlay whose upper layer is a tmpfs with a
//     maximum size. No path of the host, no /sys, a /dev with six nodes, a /proc that shows
//     a user only its own processes and hides details of the host. Every file system in it
//     belongs to the sandbox, so that inotify, locks and leases reach nobody else; only an
//     ordinary user's /dev has the host's nodes.
//   - No network interface except lo. The only way in is a listening unix socket that was
//     created inside its network namespace and lies in a directory of the host that only
//     the daemon can enter.
//   - A system call allow list (package seccomp), no_new_privs, and the capabilities in
//     launch/spawn.go: none for user, seven file and id capabilities for root inside, two
//     more for the guest, which neither of them can become or signal.
//   - Its own per-user quotas of the kernel: as root the user namespace belongs to the
//     sandbox's first id, otherwise a sandbox gets a share.
//   - Control groups, versions 1 and 2 (package cgroup), if this process may use any.
//
// The guest's executable is a sealed copy in memory without a read bit: neither an upgrade
// nor a sandbox can change it, and a process of the same uid cannot trace a process that
// runs it.
//
// # Start
//
// Start leases ids, makes the run directory and the control groups, and lets the forker, a
// small child process, clone the guest's executable as the stage of package initns, inside
// the groups. It records the process's identity in the run directory. Then it sends the
// stage one packet with detached mounts, and the guest its configuration. The stage builds
// the root, drops privileges and becomes the guest by execveat, in the same process. When
// the guest reports, Start says "go". Until then the child ends with its control socket, so
// that a daemon that is killed at any time leaves nothing running that it had not
// acknowledged.
//
// # End
//
// One goroutine for each machine waits for the end of the guest, and for the forker to reap
// it. When the init of a pid namespace has ended, the kernel has killed and reaped every
// other process in it; that is the proof of Kill. The goroutine then removes groups and run
// directory, returns the ids and ends. Backend.Close waits for all of them.
//
// Reclaim does the same for a sandbox of a daemon that ended, by its control groups and by
// the recorded process; Orphans lists such sandboxes; Adopt takes one over.
//
//	b, err := jail.New(jail.Config{Name: "container", Dir: runDir, Layers: layers})
//	m, err := b.Start(ctx, sandbox.Spec{ID: id, Layers: digests, Limits: limits, Hostname: "h"})
//	proof, err := m.Kill(ctx)
//	err = b.Close()
//
// # What it must not know
//
// Commands, files and terminals, which the guest serves; rows, deadlines and events, which
// the manager keeps; the contents of a layer. Paths, lengths and numbers from inside are
// never trusted: the host reads one bounded report from a guest, and streams.
//
// # Known limits
//
// A sandbox of an ordinary user has the same uid as its guest. Landlock protects the guest
// from commands, see package guest; on a kernel whose Landlock cannot, commands can send the
// guest's threads two signals, which it ignores.
//
// Before Linux 6.6 a tmpfs does not support user attributes, and the overlay cannot record
// that a directory hides one of a lower layer: a directory of a layer in which something was
// removed can be neither removed nor created again (EIO). Probe reports that.
//
// The memory of processes on the host's kernel cannot be saved. Their files can, see package
// upper, if the sandbox can be frozen. Children of a fork share them in layers (layers.go). A daemon of an ordinary user changes the mode of
// unreadable files while it reads them; if it is killed at that moment, the changed mode
// stays in a sandbox that no other daemon adopts.
//
// # Reasons
//
// The disk of a sandbox is a tmpfs because that bounds bytes and files exactly on every host,
// also for an ordinary user; project quotas and loop images need root. What is written counts
// as memory of the sandbox.
//
// The host's trees are mounted without mapped ids, so that their files belong to nobody inside
// and a file that the host closes later is refused by its mode. Only the small tree with /etc,
// which Hortus wrote, is mapped.
//
// Every sandbox has a time namespace in which the machine started a minute before, because the
// real boot time tells machines apart. The limit of core dumps is one byte, the kernel's sign
// for no handler: with zero the kernel would still run the host's handler, as root. The filter
// answers an attempt to change it with success, since a refusal breaks programs that lower it.
package jail
