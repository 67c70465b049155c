// Package storedir has what stores that keep one directory for each thing do alike: open
// their own directory, make new entries aside under a lock, and list the finished ones.
//
//	dir, err := storedir.Open("snapshots", path, os.RemoveAll, "new-", "gone-")
//	...
//	entry, err := storedir.MakeLocked(dir, "new-*")
//
// The package must not know what an entry holds. It keeps no state: a lock is the kernel's,
// on a directory, and ends with the process that took it.
package storedir
