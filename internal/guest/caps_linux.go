package guest

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
)

const lastCap = 63

// capSet is a thread's capability sets.
type capSet struct{ effective, permitted, inheritable uint64 }

func getCaps() (capSet, error) {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var d [2]unix.CapUserData
	if err := unix.Capget(&hdr, &d[0]); err != nil {
		return capSet{}, err
	}
	return capSet{
		uint64(d[0].Effective) | uint64(d[1].Effective)<<32,
		uint64(d[0].Permitted) | uint64(d[1].Permitted)<<32,
		uint64(d[0].Inheritable) | uint64(d[1].Inheritable)<<32,
	}, nil
}

// setCaps changes the calling thread alone.
func setCaps(c capSet) error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	d := [2]unix.CapUserData{
		{Effective: uint32(c.effective), Permitted: uint32(c.permitted), Inheritable: uint32(c.inheritable)},
		{Effective: uint32(c.effective >> 32), Permitted: uint32(c.permitted >> 32), Inheritable: uint32(c.inheritable >> 32)},
	}
	return unix.Capset(&hdr, &d[0])
}

// keepInheritable gives up the calling thread's inheritable capabilities but
// those listed.
func keepInheritable(caps []uintptr) error {
	c, err := getCaps()
	if err != nil {
		return err
	}
	var keep uint64
	for _, n := range caps {
		keep |= 1 << n
	}
	if c.inheritable&^keep == 0 {
		return nil
	}
	c.inheritable &= keep
	return setCaps(c)
}

// emptyBounding gives up the calling thread's bounding set. A guest that was
// executed has an empty one already; one that grew out of the stage before it
// empties it here, on each thread before it forks from it.
func emptyBounding() error {
	// It is emptied as a whole, always, and the first capability goes last: without that
	// it is empty.
	if has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, 0, 0, 0, 0); err != nil || has == 0 {
		return nil
	}
	drop := func(n uintptr) error {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, n, 0, 0, 0)
		if err != nil && err != unix.EINVAL {
			return fmt.Errorf("drop capability %d from the bounding set: %w", n, err)
		}
		return err
	}
	for n := uintptr(1); n <= lastCap; n++ {
		if err := drop(n); err == unix.EINVAL {
			break // beyond the kernel's last capability
		} else if err != nil {
			return err
		}
	}
	return drop(0)
}

// clearAmbient clears the ambient set of every thread, so that nothing that the
// guest starts gets capabilities by default.
func clearAmbient() error {
	_, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0)
	switch errno {
	case 0:
		return nil
	case unix.EINVAL: // no ambient set in this kernel, or in gVisor
		return nil
	case unix.ENOTSUP:
		// A binary with cgo (go run and go test make one where there is a C
		// compiler) cannot act on all threads at once. The spawner does the
		// same on each thread before it forks from it: an ambient capability
		// goes with its inheritable one.
		return nil
	}
	return errno
}

// setLimits bounds what commands inherit. The limit on processes is inherited
// from the guest itself, which no command can undo. Where commands have the
// guest's own uid they count together, so the guest keeps a reserve for its own
// threads, and each command is given the rest (see limitChild).
func setLimits(cfg *birth.Config) error {
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
