package launch

import (
	"math"
	"os"
	"strconv"
	"strings"

	"hortus.dev/internal/backend/jail/initns"
)

// What a sandbox may use of the kernel's per-user quotas. One file watcher, as node, gopls
// and cargo start them, needs one instance, and one watch for each file or directory; each
// watch also counts as memory of the sandbox.
const (
	InotifyInstances = 128
	inotifyWatches   = 1 << 19
	// quotaShare is the divisor of an ordinary user's quotas that gives a sandbox's
	// share: they also count the user's own processes.
	quotaShare = 4
)

// quotas are those of a sandbox.
func (l *Launcher) quotas() initns.Quotas {
	q := initns.Quotas{InotifyInstances: InotifyInstances, InotifyWatches: inotifyWatches}
	if l.cfg.Kernel != nil {
		q.Namespaces = math.MaxInt32 // the kernel's programs confine themselves
	}
	if !l.cfg.Ranges { // otherwise only the sandbox's own id is charged
		q.InotifyInstances = share(q.InotifyInstances, "fs/inotify/max_user_instances")
		q.InotifyWatches = share(q.InotifyWatches, "fs/inotify/max_user_watches")
	}
	return q
}

// share lowers a maximum to a share of the host's own.
func share(most int64, name string) int64 {
	if have, err := strconv.ParseInt(Sysctl(name), 10, 64); err == nil {
		most = min(most, max(1, have/quotaShare))
	}
	return most
}

// Sysctl reads a kernel parameter, such as "kernel/pty/max"; "" if there is none.
func Sysctl(name string) string {
	b, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
