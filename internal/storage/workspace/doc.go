// Package workspace stores durable files: what a sandbox wrote at /workspace over read-only layers.
//
// A [Store] keeps each workspace in its own directory on the host's disk: the upper layer and the work
// directory of an overlay, and a record of its layers. A workspace outlives the sandboxes that use it, their
// guests and the daemon. A writer holds a [Lease], a kernel lock that ends with its holder, and records the
// process that the files are mounted for, which may outlive the holder: there is one writer at a time, also
// after a kill at any moment.
//
// [Store.Changes] lists the changes in the upper layer, for the host. [Delta] makes a layer of such changes,
// for a sandbox that must not have anything else.
//
// # Untrusted data
//
// A guest wrote everything in an upper layer. It is read by descriptors, with openat2, without following a
// link or leaving the directory, while no process writes to it. Only the overlay attributes that the overlay
// writes in Hortus's own mounts are accepted; a file with any other is refused. Numbers, sizes, depths and
// times are limited, and everything that is refused is listed with its reason.
//
// The package must not know sandboxes, git or tasks, and mounts nothing; a backend does. It keeps only the
// descriptors of leases and of open [Changes].
//
// # Other hosts
//
// Several hosts may share a workspace (package shared). Its record has a [Remote] then, and its sealed layers have nothing that
// an archive cannot hold.
//
// # Reasons
//
// A fork of more than 256 files or 8 MiB makes a layer of hard links that parent and child
// share, with a random name until no process can write to it; a copy read and wrote everything for
// each fork. It is not packed, which would be the copy again. What was written still counts as
// written, in changes and in the quota. Four such layers at most, and the next fork makes one
// of them.
package workspace
