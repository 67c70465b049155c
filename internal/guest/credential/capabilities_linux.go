package credential

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// LastCap is the highest number that a capability can have in the kernel's sets.
const LastCap = 63

// Caps are the capability sets of a thread: bit n stands for capability n.
type Caps struct{ Effective, Permitted, Inheritable uint64 }

// CurrentCaps returns the capability sets of the calling thread.
func CurrentCaps() (Caps, error) {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var d [2]unix.CapUserData
	if err := unix.Capget(&hdr, &d[0]); err != nil {
		return Caps{}, err
	}
	return Caps{
		uint64(d[0].Effective) | uint64(d[1].Effective)<<32,
		uint64(d[0].Permitted) | uint64(d[1].Permitted)<<32,
		uint64(d[0].Inheritable) | uint64(d[1].Inheritable)<<32,
	}, nil
}

// Set changes the capability sets of the calling thread only.
func (c Caps) Set() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	d := [2]unix.CapUserData{
		{Effective: uint32(c.Effective), Permitted: uint32(c.Permitted), Inheritable: uint32(c.Inheritable)},
		{Effective: uint32(c.Effective >> 32), Permitted: uint32(c.Permitted >> 32), Inheritable: uint32(c.Inheritable >> 32)},
	}
	return unix.Capset(&hdr, &d[0])
}

// KeepInheritable gives up the calling thread's inheritable capabilities but
// those listed.
func KeepInheritable(caps []uintptr) error {
	c, err := CurrentCaps()
	if err != nil {
		return err
	}
	var keep uint64
	for _, n := range caps {
		keep |= 1 << n
	}
	if c.Inheritable&^keep == 0 {
		return nil
	}
	c.Inheritable &= keep
	return c.Set()
}

// EmptyBounding gives up the calling thread's bounding set. A guest that was
// executed has an empty one already; one that grew out of the stage before it
// empties it here, on each thread before it forks from it.
func EmptyBounding() error {
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
	for n := uintptr(1); n <= LastCap; n++ {
		if err := drop(n); err == unix.EINVAL {
			break // beyond the kernel's last capability
		} else if err != nil {
			return err
		}
	}
	return drop(0)
}

// ClearAmbient clears the ambient set of every thread, so that nothing that the
// guest starts gets capabilities by default.
func ClearAmbient() error {
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
