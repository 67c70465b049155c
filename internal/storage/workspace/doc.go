// Package workspace keeps durable file state: what a sandbox wrote over read-only
// layers at /workspace.
//
// A [Store] keeps each workspace in a directory of its own on the host's disk: the
// upper layer and the work directory of an overlay, and a record of the layers
// that it lies on. It outlives the sandboxes that use it, their guests and the
// daemon. Anyone who writes holds a [Lease], a lock of the kernel's that ends with its
// holder, and notes the process that the files are mounted for, which may outlive
// the holder: one writer at a time, also after a kill at any instant.
//
// [Store.Changes] says what the upper layer changes, for the host; [Delta] makes a
// layer out of such changes, for a sandbox that must not have the rest.
//
// # What it does not trust
//
// Everything in an upper layer was written by a guest. It is read through
// descriptors, with openat2 and without following a link or leaving the
// directory, while nobody writes to it. Of the attributes by which an overlay
// steers itself only those are understood that the overlay writes in our mounts;
// any other refuses the file. Numbers, sizes, depths and times are bounded, and
// what is not taken is listed with its reason.
//
// The package must not know sandboxes, git or tasks, and mounts nothing itself: a
// backend does. It keeps nothing alive but the descriptors of leases and of open
// [Changes].
package workspace
