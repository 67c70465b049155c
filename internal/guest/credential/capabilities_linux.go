package credential

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// LastCap is the highest possible capability number.
const LastCap = 63

// Caps are the capability sets of a thread; bit n is capability n.
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

// KeepInheritable removes all inheritable capabilities of the calling thread except for
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

// EmptyBounding empties the bounding set of the calling thread. In a guest that was executed
// the set is already empty. A guest that continues from the stage before it empties the set
// of each thread before it forks from the thread.
func EmptyBounding() error {
	// The set is always emptied as a whole, capability 0 last: if 0 is not in the set, the
	// set is empty.
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
			break // higher than the kernel's last capability
		} else if err != nil {
			return err
		}
	}
	return drop(0)
}

// ClearAmbient clears the ambient set of all threads, so that started programs get no
// capabilities by default.
func ClearAmbient() error {
	_, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0)
	switch errno {
	case 0:
		return nil
	case unix.EINVAL: // no ambient set, as in gVisor
		return nil
	case unix.ENOTSUP:
		// A binary with cgo (go run and go test build one if a C compiler exists) cannot
		// change all threads at once. The spawner removes the inheritable capabilities of
		// each thread before it forks, which removes the ambient ones too.
		return nil
	}
	return errno
}
