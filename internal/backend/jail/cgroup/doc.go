// Package cgroup puts a sandbox into control groups of its own: version 1,
// version 2, and hosts that have some controllers on each.
//
// A [Host] is what was found on this machine: for every controller that matters
// the directory below which groups can be made, or the reason why there is none.
// A [Group] is the set of directories of one sandbox, one for each hierarchy,
// named by its id. Limits are written before any process is in it.
//
// A process is born inside its group and never moved: under version 2 by
// CLONE_INTO_CGROUP, under version 1 by a thread of ours that joins the group,
// forks and leaves again. A thread may move itself without the host-wide lock
// that moving another process takes, which costs milliseconds in bad moments.
//
// Under version 2 groups are made at the top of the hierarchy where that can be
// written, else below this process's own group, if its user may write there.
// Only a group without processes of its own hands controllers down, so what runs
// in that group, this process among it, moves into "hortus-host" beside ours. A
// group with controllers that nobody delegated is not touched. A sandbox's group
// is a leaf: it hands nothing down.
//
// The package knows numbers and files, nothing of sandboxes. A group lives until
// Remove, also when the process that made it dies.
package cgroup
