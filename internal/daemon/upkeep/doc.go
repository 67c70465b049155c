// Package upkeep reports the content of a data directory, and removes what is unused.
//
// A [Keeper] checks each part in turn: layers that nothing names, that have no lease and that were not used for
// long, or the least recently used ones of them if layers exceed their maximum size; the output of
// tasks that ended long ago or have no row; snapshots that are broken, or old without a name and without a
// paused sandbox; packages that no sandbox has
// used for long; leftovers of ended sandboxes; old logs and old copies of the database. A dry run makes the
// same list and removes nothing.
//
// Data in use is never removed, and a check is never separated from its removal: a layer is removed only
// under its lock, leftovers of a sandbox only by its backend, which refuses a running one, and a task's
// output only if its row is done, which is final.
//
// The package must not know SQL, templates or backends; it declares the few methods that it needs of them. It
// keeps no state but the sizes of layers: one collection runs at a time, in its caller's goroutine. A [Trimmer] has
// a goroutine that keeps layers within their maximum size, and a [Pruner] one that removes the rows of what ended.
package upkeep
