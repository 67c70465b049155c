package jail

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/initns"
)

// fileMemory is the least memory of a sandbox that an open file takes, in bytes, as
// measured: it is between 500 and 800.
const fileMemory = 512

// tables are the host's limits that all sandboxes share, and that no control group and
// no user divides.
type tables struct {
	memory             int64 // of the host, in bytes
	files              int64 // fs.file-max
	ptys, reservedPTYs int64 // kernel.pty.max and kernel.pty.reserve
	inotifyInstances   int64 // fs.inotify.max_user_instances
}

func readTables() tables {
	number := func(file string) int64 {
		n, err := strconv.ParseInt(sysctl(file), 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	t := tables{files: number("/proc/sys/fs/file-max"), ptys: number("/proc/sys/kernel/pty/max"), reservedPTYs: number("/proc/sys/kernel/pty/reserve"),
		inotifyInstances: number("/proc/sys/fs/inotify/max_user_instances")}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		t.memory = int64(info.Totalram) * int64(info.Unit)
	}
	return t
}

// low says which limits are so low that sandboxes within their own limits can take a
// part of them from others, and what to set. A limit that is not known, 0, is not low.
func (t tables) low() (reason, fix string) {
	var reasons, settings []string
	say := func(name string, have, want int64, why string) {
		if have > 0 && have < want {
			reasons = append(reasons, fmt.Sprintf("%s is %d: %s", name, have, why))
			settings = append(settings, fmt.Sprintf("%s=%d", name, want))
		}
	}
	// With a file for every fileMemory bytes of the host, the limit of memory divides
	// them among sandboxes.
	say("fs.file-max", t.files, t.memory/fileMemory, "a sandbox can open more than its share of the host's files within its memory limit")
	sandboxes := t.memory / api.DefaultLimits().MemoryBytes
	say("kernel.pty.max", t.ptys, sandboxes*initns.Terminals+t.reservedPTYs, "sandboxes can use up the host's pseudo terminals together")
	say("fs.inotify.max_user_instances", t.inotifyInstances, inotifyInstances, "programs that watch files may fail")
	if len(reasons) == 0 {
		return "", ""
	}
	return strings.Join(reasons, "; "), "Set sysctl " + strings.Join(settings, ", ") + "."
}
