// Package upkeep says what a data directory holds, and removes what nothing
// refers to.
//
// A [Keeper] looks at each part in turn: layers that no template names and on
// which nobody holds a lease; the output of tasks that ended long ago, or that no
// row knows; snapshots that are broken, or old and neither a template nor what a
// sandbox is paused in; what sandboxes left that no longer live; old logs and old copies of
// the database. A dry run makes the same list and removes nothing.
//
// What lives is never touched, and never by looking first and removing later
// alone: a layer goes only under its lock, a sandbox's remains only through its
// backend, which refuses one that lives, and a task's output only when its row
// says that it is done, which no row takes back.
//
// The package must not know SQL, templates or backends; it is given the few
// questions that it asks of them. It keeps nothing alive: one collection runs at
// a time, in its caller's goroutine.
package upkeep
