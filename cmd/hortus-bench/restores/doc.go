// Package restores measures how soon an installed dependency tree is there: extracted from a tar.zst
// archive, which is the published technique, and mounted as a layer. Both lie on one disk and take turns.
//
// A tree is generated (package modules), so that no network is needed and every host has the same files. The
// host's part uses a layer store of its own, which is opened again for each round, so that its mounts are new.
// The sandboxes' part uses the layers and workspaces of the daemon. Extracted trees are removed only at the end:
// on some disks a removal makes the next extraction several times slower.
//
// The package owns the directory and the sandboxes that it makes; all of them are gone when Measure returns. It
// must not know a server or a backend.
//
//	err := restores.Measure(ctx, restores.Config{N: 200, Backends: []string{"container"}, ...})
package restores
