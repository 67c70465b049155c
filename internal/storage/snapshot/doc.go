// Package snapshot stores saved states of sandboxes on disk.
//
// A [Store] owns one directory of a data directory. Each snapshot is a directory named by its ID, with the
// files that a backend wrote and a manifest: the sandbox, what can restore it, and the length and SHA-256 of
// each file. Files have mode 0400 in directories that only their owner can enter, because they contain
// everything that the sandbox had, including secrets in its memory.
//
// # Lives
//
// A snapshot is first a row with the state saving. Its files are written to a temporary directory, flushed,
// verified and renamed; then the row changes to ready. A crash at any time leaves either a complete snapshot
// or a row without one, and [Store.Recover] finds out which. Before a snapshot is used, its manifest and
// lengths are checked, and on the first use in each run every byte; a difference makes the row broken, which
// is final. If a snapshot is removed while a sandbox starts from it, its files are deleted when the last of
// these starts is done, and no new start can use it.
//
// # Names
//
// A snapshot with names is a template: web, which is web:default, or web:v1. A name belongs to one ready
// snapshot of an account. What takes a name from another changes both rows in one transaction, together
// with the state of a new snapshot, so a name always leads to a complete one: to that of the last save that
// completed. A snapshot that loses its last name is removed.
//
// Temporary images (of forks) are in a directory of this run. A kernel lock distinguishes it from that of an
// earlier run.
//
// # Other hosts
//
// With an archive (package artefact) a snapshot can be opened on another host that has the same rows. [Store.Archive] stores a copy and the
// name of its manifest in the row; [Store.Start] does so for each snapshot, in a goroutine that Close waits for. [Store.Use] fetches what is
// not here, into a directory of copies with a maximum size, and what is damaged. A row whose snapshot has a copy does not become broken.
//
//	r, err := a.Archive(ctx, id)            // on one host
//	r, dir, done, err := b.Use(ctx, id)     // on another one
//
// The package must not know a backend, the manager, SQL, or what the files mean.
package snapshot
