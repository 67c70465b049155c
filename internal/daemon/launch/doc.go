// Package launch finds the daemon of a data directory, or starts one: the same executable,
// detached, which listens on a unix socket in the data directory.
//
//	c, err := launch.Connect(ctx, launch.Options{DataDir: dir})
//	...
//	defer c.Close()
//
// A daemon that was started calls [Report] when it serves or cannot, which ends the wait of
// the process that started it. A resident daemon takes over the data directory of one that a
// command started with [Displace].
//
// The package must not know what a daemon runs. It holds no goroutine; a started daemon
// outlives this process.
package launch
