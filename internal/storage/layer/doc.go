// Package layer names the immutable file trees that sandboxes are made of.
//
// A [Digest] names a tree by its content or, for the host template, by a fingerprint of its sources. A
// [Tree] describes how that tree is mounted on this machine. A [Store] keeps trees below one directory. A
// tree is written to a temporary directory, verified and renamed, so that an incomplete tree is never found.
// Paths in a tree are relative to the store, so that the directory can be moved.
//
// Put packs a tree that lies wholly in the store into one EROFS image, if the process is root, the kernel
// can mount images and the tree is not small. A store mounts an image once, when it is first used, and all
// sandboxes share that mount, which no other process sees. Before the first mount the image is compared with the
// hash that Put recorded. A corrupt tree is set aside and then is not found, so that its owner builds it again.
//
// With an [Archive], Put restores a tree from its portable form instead of building it, and saves in the background
// what it built.
//
// The package must not know what a tree is used for, and mounts nothing else; a backend does. A tree exists
// until it is removed, which requires a proof that it is unused: a [Lease] is a kernel lock on the tree. The store
// knows when each tree was last used, and removes none by itself: see package upkeep.
//
//	tree, err := store.Put(ctx, digest, func(ctx context.Context, dir string) (layer.Tree, error) {
//		root := filepath.Join(dir, "root")
//		return layer.Tree{Root: root}, write(root)
//	})
//	tree, lease, err := store.Lease(digest)
//	defer lease.Release()
//
// # Reasons
//
// A lease is a lock of the kernel because a count in memory ends with its daemon, one in the
// database outlives it, and looking before removing leaves a gap. To remove a tree takes the
// exclusive lock and renames first. Nothing is collected unless somebody asks for it.
package layer
