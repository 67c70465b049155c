// Package child talks to the first process of a sandbox while it starts, over its control
// socket: first the stage of package initns, then the guest.
//
// It must not know what a sandbox contains, nor how a running guest is used.
//
// A [Child] is made when the process was forked. Kill ends it. After "go" the process
// belongs to the machine, and the control socket is closed.
//
//	err := c.Send(spec, fds)
//	disk, err := c.AwaitBuilt()
//	err = c.AwaitReady()
package child
