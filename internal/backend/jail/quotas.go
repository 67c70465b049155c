package jail

import (
	"math"
	"strconv"

	"hortus.dev/internal/backend/jail/initns"
)

// What a sandbox may hold of the kernel's per-user quotas. One watcher of files, as
// node, gopls and cargo start them, takes one instance, and one watch for each file or
// directory; each watch is memory of the sandbox, too.
const (
	inotifyInstances = 128
	inotifyWatches   = 1 << 19
	// quotaShare is the part of an ordinary user's quotas, one in so many, that a
	// sandbox may take: they are counted together with the user's own processes.
	quotaShare = 4
)

// quotas are those of a sandbox.
func (b *Backend) quotas() initns.Quotas {
	q := initns.Quotas{InotifyInstances: inotifyInstances, InotifyWatches: inotifyWatches}
	if b.cfg.Kernel != nil {
		q.Namespaces = math.MaxInt32 // the kernel's programs confine themselves
	}
	if !b.root { // else the sandbox's own id is charged, and no other
		q.InotifyInstances = share(q.InotifyInstances, "/proc/sys/fs/inotify/max_user_instances")
		q.InotifyWatches = share(q.InotifyWatches, "/proc/sys/fs/inotify/max_user_watches")
	}
	return q
}

// share lowers a bound to a share of the host's own.
func share(bound int64, file string) int64 {
	if have, err := strconv.ParseInt(sysctl(file), 10, 64); err == nil {
		bound = min(bound, max(1, have/quotaShare))
	}
	return bound
}
