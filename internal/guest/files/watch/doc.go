// Package watch reports changes below directories, by inotify: as a stream, or kept for
// clients that poll.
//
//	watches := watch.New(ids, access, fs)
//	defer watches.Close()
//
// A stream's watch lives as long as its request. A watcher that is polled has a goroutine
// that lives until the client removes it or [Service.Close]. The numbers of
// directories, changes and watchers are limited. Directories are read with the identity's own rights. The package
// knows nothing of commands.
package watch
