package diagnosis

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/backend/jail/launch"
)

// fileMemory is the minimum memory of a sandbox that an open file uses, in bytes. It was
// measured to be between 500 and 800.
const fileMemory = 512

// tables are limits of the host that all sandboxes share: neither control groups nor users
// divide them.
type tables struct {
	memory             int64 // of the host, in bytes
	files              int64 // fs.file-max
	ptys, reservedPTYs int64 // kernel.pty.max and kernel.pty.reserve
	inotifyInstances   int64 // fs.inotify.max_user_instances
}

func readTables() tables {
	number := func(file string) int64 {
		n, err := strconv.ParseInt(launch.Sysctl(file), 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	t := tables{files: number("fs/file-max"), ptys: number("kernel/pty/max"), reservedPTYs: number("kernel/pty/reserve"),
		inotifyInstances: number("fs/inotify/max_user_instances")}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		t.memory = int64(info.Totalram) * int64(info.Unit)
	}
	return t
}

// LowLimits returns which limits of the host are so low that sandboxes within their own limits
// can exhaust them for others, and what to set.
func LowLimits() (reason, fix string) { return readTables().low() }

// low is LowLimits; a limit of 0 is not known and counts as high enough.
func (t tables) low() (reason, fix string) {
	var reasons, settings []string
	say := func(name string, have, want int64, why string) {
		if have > 0 && have < want {
			reasons = append(reasons, fmt.Sprintf("%s is %d: %s", name, have, why))
			settings = append(settings, fmt.Sprintf("%s=%d", name, want))
		}
	}
	// If the host has a file for every fileMemory bytes, the memory limits of the sandboxes
	// bound their files too.
	say("fs.file-max", t.files, t.memory/fileMemory, "within its memory limit a sandbox can open more files than its share of the host")
	sandboxes := t.memory / api.DefaultLimits().MemoryBytes
	say("kernel.pty.max", t.ptys, sandboxes*initns.Terminals+t.reservedPTYs, "all sandboxes together can exhaust the host's pseudo terminals")
	say("fs.inotify.max_user_instances", t.inotifyInstances, launch.InotifyInstances, "programs that watch files may fail")
	if len(reasons) == 0 {
		return "", ""
	}
	return strings.Join(reasons, "; "), "sysctl -w " + strings.Join(settings, " ")
}
