// Package cgroup puts a sandbox into its own control groups: version 1, version 2, and hosts
// that have some controllers on each.
//
// A [Host] is what was found on this host: for every controller the directory below which
// groups can be created, or the reason why there is none. A [Group] is the set of
// directories of one sandbox, one for each hierarchy, named by its id. Limits are written
// before any process is in it.
//
// A process is created inside its group and never moved: under version 2 by
// CLONE_INTO_CGROUP, under version 1 by a thread of this process that joins the group, forks
// and leaves again. A thread can move itself without the host-wide lock that moving another
// process takes, which sometimes costs milliseconds.
//
// Under version 2 groups are created at the top of the hierarchy if it is writable, otherwise
// below this process's own group. Only a group without processes of its own can delegate
// controllers, so the processes of that group, this one included, move into the sibling
// "hortus-host". A group with controllers that nobody delegated is not changed. A sandbox's
// group is a leaf: it delegates nothing.
//
// The package must not know sandboxes: it deals with numbers and files. A group exists until
// Remove, also if the process that created it ends.
//
//	host, err := cgroup.Detect(cgroup.Options{Name: "hortus-0"})
//	defer host.Close()
//	g, err := host.Create(id, cgroup.Limits{MemoryBytes: 512 << 20})
//	defer g.Remove(5 * time.Second)
package cgroup
