// Package layer names the immutable file trees that sandboxes are made of.
//
// A [Digest] names a tree by its content or, for the host template, by a fingerprint of its sources. A
// [Tree] describes how that tree is mounted on this machine. A [Store] keeps trees below one directory. A
// tree is written to a temporary directory, verified and renamed, so that an incomplete tree is never found.
// Paths in a tree are relative to the store, so that the directory can be moved.
//
// The package must not know what a tree is used for, and mounts nothing; a backend does. A tree exists until
// it is removed, which requires a proof that it is unused: a [Lease] is a kernel lock on the tree.
package layer
