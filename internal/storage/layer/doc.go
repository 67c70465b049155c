// Package layer names the immutable file trees that sandboxes are made of.
//
// A [Digest] names a tree by its content or, for the host template, by a
// fingerprint of what it shows. A [Tree] says how that tree is mounted on this
// machine. A [Store] keeps trees below one directory: written aside, verified,
// renamed, so that a half-written tree is never found. What lies in the store is named
// from each tree, so that the directory can be moved.
//
// The package must not know what a tree is for, and mounts nothing itself: a
// backend does. A tree lives until it is removed, which nobody can who has no
// proof that it is unused: a [Lease] is a lock of the kernel's on the tree.
package layer
