// Package snapshot keeps saved states of sandboxes on disk.
//
// A [Store] owns one directory of one data directory. Each snapshot is a
// directory named by its id with the files that a backend wrote and a manifest:
// what they were taken of, what can restore them, and the length and SHA-256 of
// each. Files are 0400 in directories that only their owner can enter, since they
// hold whatever the sandbox held, secrets in its memory included.
//
// # Lives
//
// A snapshot is a row first, which says saving. Its files are written aside,
// flushed, checked and renamed; only then the row says ready. So a death at any
// instant leaves either a whole snapshot or a row that leads to none, and
// [Store.Recover] says which. Nothing is given out before its manifest and
// lengths were looked at, and the first time in each run every byte; what does not
// agree makes the row broken, for good. A snapshot that is removed while somebody
// starts from it goes when the last of them is done, and nobody new gets it.
//
// Images that are needed for a moment (forks) lie in a directory of this run,
// which a lock of the kernel's tells from that of a run that is gone.
//
// The package must not know a backend, the manager, SQL, or what the files mean.
package snapshot
