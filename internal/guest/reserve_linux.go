package guest

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
)

// limitChild takes the guest's reserve of processes from a command that shares its uid:
// the limit that it inherited is the guest's own.
//
// What the command forked before this has the guest's limit, too. One that forks at once
// and without end could use up the reserve, and the guest dies when it cannot have a thread.
// So the limit is set for all processes here but the guest, until none has more.
func limitChild(cfg *birth.Config, pid int) {
	if cfg.Switch || cfg.OwnKernel || cfg.Processes <= 0 {
		return
	}
	lim := unix.Rlimit{Cur: uint64(cfg.Processes), Max: uint64(cfg.Processes)}
	unix.Prlimit(pid, unix.RLIMIT_NPROC, &lim, nil) // it may have ended already
	if !cfg.PID1 {
		return // the processes here are not all of the sandbox
	}
	// What is limited cannot fork one that is not; the rest ends with its own limit.
	for range limitPasses {
		if limitOthers(lim) == 0 {
			return
		}
	}
}

// limitPasses bounds the time that processes can take that fork and end in turn.
const limitPasses = 100

// limitOthers sets the limit for all processes that have more, but this one, and says how
// many there were.
func limitOthers(lim unix.Rlimit) (n int) {
	proc, err := os.Open("/proc")
	if err != nil {
		return 0
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return 0
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid <= 1 {
			continue
		}
		var old unix.Rlimit
		if unix.Prlimit(pid, unix.RLIMIT_NPROC, nil, &old) == nil && old.Max > lim.Max && unix.Prlimit(pid, unix.RLIMIT_NPROC, &lim, nil) == nil {
			n++
		}
	}
	return n
}
