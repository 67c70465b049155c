// Package lifetime ends a guest at its deadline if its host does not.
//
//	l := lifetime.New(func() { os.Exit(0) })
//	defer l.Close()
//	handlers[envd.PathLifetime] = l.Serve
//
// The host ends a sandbox itself, earlier than the deadline that it gives its guest. This one is for a host whose
// daemon died: a sandbox of it would run, and use what it can, until somebody starts a daemon again.
//
// A [Lifetime] has no deadline until it gets one. The time in which the guest is quiet, such as a save to a disk, does not
// count. What a guest does that was made by others than Hortus is not known: the deadline is no protection against it.
//
// The package must not know what ends.
package lifetime
