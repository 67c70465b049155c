// Package jail boots a first process in namespaces and control groups of its own,
// over read-only layers, and holds its life. Backends stand on it: container, whose
// first process is the guest, and those whose guest has a kernel of its own. It is
// pure Go and needs no daemon, no runc and no setuid helper.
//
// # What holds a sandbox
//
//   - User, pid, network, mount, ipc, uts, cgroup and time namespaces. As root every
//     sandbox has 65,536 ids of its own, leased, and root inside is nobody
//     outside; as an ordinary user a single id is mapped and there is one
//     identity, user.
//   - A root of its own: read-only layers below an overlay whose upper layer is a
//     sized tmpfs, no path of the host, no /sys, a /dev of six nodes, a /proc that
//     shows a user's own processes and hides what tells of the machine. Every file
//     system in it is the sandbox's own, so that inotify, locks and leases reach
//     nobody else; an ordinary user's /dev has the host's nodes.
//   - No interface but lo. The one way in is a listening unix socket that was made
//     inside its network namespace and lies in a directory of the host's that
//     nobody but the daemon can enter.
//   - An allow list of system calls (package seccomp), no_new_privs, and
//     capabilities as listed in spawn.go: none for user, seven file and id
//     capabilities for root inside, two more for the guest, which neither of them
//     can become or signal.
//   - Quotas of its own where the kernel keeps some for each user: as root the user
//     namespace belongs to the sandbox's first id, otherwise a sandbox gets a share.
//   - Control groups, versions 1 and 2 (package cgroup), where the host has any
//     that this process may use.
//
// The guest's executable is a sealed copy in memory, without a read bit: it
// cannot be changed by an upgrade or a sandbox, and a process that runs it cannot
// be traced by one of the same uid.
//
// # Birth
//
// Start leases ids, makes the run directory and the control groups, and has the
// forker, a small process of this one's, clone the guest's executable as the stage of
// package initns, born inside its groups. It records the process's identity in the
// run directory, then sends the stage one packet with detached mounts and the guest its configuration. The stage builds
// the root, gives up privileges and becomes the guest by execveat, in the same
// process. When the guest reports, Start says "go". Until then the end of the
// control socket ends the child, so a daemon that is killed at any instant leaves
// nothing that runs on by itself except what it had acknowledged.
//
// # Death
//
// One goroutine for each machine waits for the guest, and for the forker's word that
// it was reaped. When the init of a pid namespace has ended, the kernel has killed
// and reaped everything else in it; that is the proof of Kill. The goroutine then removes groups and run
// directory, gives the ids back and ends. Backend.Close waits for all of them.
//
// Reclaim does the same for a sandbox of a dead owner, by its control groups and
// by the recorded process; Orphans finds such sandboxes.
//
// # What it must not know
//
// Commands, files and terminals, which the guest serves; rows, deadlines and
// events, which the manager keeps; what a layer shows. Paths, lengths and numbers
// that come from inside are never followed: the host reads one bounded report from
// a guest, and streams.
//
// # Known limits
//
// A sandbox of an ordinary user shares its one uid with its guest. Landlock keeps
// commands from it, see package guest; where a kernel has none that can, the
// guest's threads can be sent two signals, on which they do nothing.
//
// Before Linux 6.6 a tmpfs keeps no user attributes, and the overlay cannot note
// that a directory hides one below it: a directory of a layer in which something
// was removed can be neither removed nor made again (EIO). Probe says so.
//
// A process tree of the host's kernel cannot be saved with its memory. What it wrote
// can, see package upper, where it can be frozen for that. A daemon of an ordinary
// user opens for the moment of reading what a guest has shut to itself; dying in that
// moment it leaves a mode changed, in a sandbox that nobody takes over.
package jail

import "hortus.dev/internal/backend/jail/initns"

// InitMain runs the stage before the guest. See InitArgv0.
func InitMain() int { return initns.Main() }
