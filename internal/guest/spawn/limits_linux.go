package spawn

import (
	"fmt"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/procfs"
)

// limitCommand takes the guest's reserve of processes from a command that shares its uid:
// the limit that it inherited is the guest's own.
//
// What the command forked before this has the guest's limit, too. One that forks at once
// and without end could use up the reserve, and the guest dies when it cannot have a thread.
// So the limit is set for all processes here but the guest, until none has more.
func limitCommand(cfg *birth.Config, pid int) {
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
	procfs.EachID(func(pid int) {
		var old unix.Rlimit
		if pid > 1 && unix.Prlimit(pid, unix.RLIMIT_NPROC, nil, &old) == nil && old.Max > lim.Max && unix.Prlimit(pid, unix.RLIMIT_NPROC, &lim, nil) == nil {
			n++
		}
	})
	return n
}

// SetLimits bounds what commands inherit. The limit on processes is inherited
// from the guest itself, which no command can undo. Where commands have the
// guest's own uid they count together, so the guest keeps a reserve for its own
// threads, and each command is given the rest (see limitCommand).
func SetLimits(cfg *birth.Config) error {
	// No core dumps. At nought the kernel would still run the host's handler,
	// if there is one; at one byte it does not.
	var core unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &core); err != nil {
		return fmt.Errorf("RLIMIT_CORE: %w", err)
	}
	core.Cur, core.Max = min(1, core.Max), min(1, core.Max)
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &core); err != nil {
		return fmt.Errorf("RLIMIT_CORE: %w", err)
	}
	if cfg.Processes > 0 && !cfg.OwnKernel { // there the group bounds them
		n := uint64(cfg.Processes)
		if cfg.Switch {
			// It holds for the guest as well, on a count of its own.
			n = max(n, birth.Reserve)
		} else {
			n += birth.Reserve
		}
		var old unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NPROC, &old); err != nil {
			return fmt.Errorf("RLIMIT_NPROC: %w", err)
		}
		n = min(n, old.Max)
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return fmt.Errorf("RLIMIT_NPROC: %w", err)
		}
	}
	return nil
}
