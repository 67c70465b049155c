// Package watch reports changes below directories with inotify. A client receives them as a
// stream or polls for them.
//
//	watches := watch.New(ids, access, fs)
//	defer watches.Close()
//
// A stream's watch lives as long as its request. A polled watcher has a goroutine that lives
// until the client removes the watcher or [Service.Close] is called. The numbers of
// directories, changes and watchers are limited. Directories are read with the identity's own
// rights. The package must not depend on commands.
package watch
