// Package datadir is a daemon's data directory: its layout, its lock, its socket and
// its removal.
//
// # One owner per data directory
//
// A data directory belongs to at most one daemon: the one that holds the lock of its
// file "lock". The kernel releases the lock when the process ends, however it ends, so
// a lock that can be acquired proves that every earlier owner has ended; only then are
// rows of earlier owners changed. A pid is never evidence.
//
//	dir, err := datadir.Open(path)
//	...
//	lock, err := datadir.AcquireLock(dir.Lock())
//	if errors.Is(err, datadir.ErrOwned) {
//		// another daemon serves dir
//	}
//	defer lock.Release()
//
// [Inspect] and [Remove] are for `hortus uninstall`: a file that a daemon creates at the
// top of its directory is named in remove.go, or uninstall leaves it.
//
// The package must not know what a daemon runs. It holds no goroutine; a [Lock] lives
// until Release.
package datadir
