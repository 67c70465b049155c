package spawn

import (
	"fmt"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/procfs"
)

// limitCommand lowers the process limit of a command that shares the guest's uid: the
// command inherited the guest's limit, which includes the guest's reserve.
//
// Processes that the command has already forked have the guest's limit too, and could use up
// the reserve; the guest dies if it cannot create a thread. So limitCommand sets the limit
// of all processes except the guest, until none has a higher one.
func limitCommand(cfg *birth.Config, pid int) {
	if cfg.Switch || cfg.OwnKernel || cfg.Processes <= 0 {
		return
	}
	lim := unix.Rlimit{Cur: uint64(cfg.Processes), Max: uint64(cfg.Processes)}
	unix.Prlimit(pid, unix.RLIMIT_NPROC, &lim, nil) // fails if it has ended
	if !cfg.PID1 {
		return // not all processes here are the sandbox's
	}
	// A limited process cannot fork an unlimited one.
	for range limitPasses {
		if limitOthers(lim) == 0 {
			return
		}
	}
}

// limitPasses is the maximum number of passes, in case processes fork and end all the time.
const limitPasses = 100

// limitOthers sets the limit of all processes except pid 1 that have a higher one, and
// returns their number.
func limitOthers(lim unix.Rlimit) (n int) {
	procfs.EachID(func(pid int) {
		var old unix.Rlimit
		if pid > 1 && unix.Prlimit(pid, unix.RLIMIT_NPROC, nil, &old) == nil && old.Max > lim.Max && unix.Prlimit(pid, unix.RLIMIT_NPROC, &lim, nil) == nil {
			n++
		}
	})
	return n
}

// SetLimits sets the limits of the guest, which commands inherit and cannot raise. If
// commands have the guest's uid, the kernel counts their processes and the guest's threads
// together: the guest keeps a reserve, and limitCommand lowers the limit of each command.
func SetLimits(cfg *birth.Config) error {
	// No core dumps. With 0 the kernel would still run the host's handler; with 1 it does
	// not.
	var core unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &core); err != nil {
		return fmt.Errorf("RLIMIT_CORE: %w", err)
	}
	core.Cur, core.Max = min(1, core.Max), min(1, core.Max)
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &core); err != nil {
		return fmt.Errorf("RLIMIT_CORE: %w", err)
	}
	if cfg.OwnMachine && cfg.PID1 { // in a container of another engine, which has these limits of the host
		for resource, most := range map[int]uint64{unix.RLIMIT_NOFILE: 16 << 10, unix.RLIMIT_SIGPENDING: 4096} {
			var have unix.Rlimit
			if err := unix.Getrlimit(resource, &have); err != nil {
				return fmt.Errorf("resource limit %d: %w", resource, err)
			}
			// gVisor, which a cluster may have, refuses some, and counts in a kernel of the container's own.
			if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: min(most, have.Max), Max: min(most, have.Max)}); err != nil && err != unix.EPERM {
				return fmt.Errorf("resource limit %d: %w", resource, err)
			}
		}
	}
	if cfg.Processes > 0 && !cfg.OwnKernel { // a control group limits them there
		n := uint64(cfg.Processes)
		if cfg.Switch {
			// The guest has the same limit, but its uid counts separately.
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
