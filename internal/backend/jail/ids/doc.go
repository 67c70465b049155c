// Package ids gives sandboxes user ids: which ids a sandbox has inside, ranges of the
// host's ids leased to one sandbox each, and mounts that show a directory with the ids
// of a user namespace.
//
// It must not know how a sandbox is started or what runs in it.
//
// A [Range] is leased with Get, or with Retake from a daemon that ended, and returned
// with Put after the sandbox's last process has ended. Leave unlocks it while the
// sandbox keeps running. A range whose daemon was killed is leased again when the
// recorded process has ended.
//
//	pool := ids.NewPool(ids.Dir)
//	defer pool.Close()
//	r, err := pool.Get()
//	...
//	defer pool.Put(r)
package ids

// Ids inside a sandbox.
const (
	RootUID  = 0
	UserUID  = 1000
	GuestUID = 65533
)
