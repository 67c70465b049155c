package spawn

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/credential"
)

// dropPrivileges makes the calling thread ready to fork from: its children can get only the
// capabilities in keep, even if they execute a file as uid 0, and their netlink sockets are
// counted.
//
// A kernel of the guest's own, such as gVisor, may have no secure bits. They are a second
// safeguard: a file executed by uid 0 gets the union of the bounding set, which is empty,
// and the inheritable set.
func (sp *Spawner) dropPrivileges(keep []uintptr) error {
	if err := credential.KeepInheritable(keep); err != nil || !sp.cfg.Switch {
		return err
	}
	if sp.cfg.OwnKernel {
		return credential.EmptyBounding()
	}
	const noRoot, locked = 1 << 0, 1 << 1 // SECBIT_NOROOT and its lock
	bits, err := unix.PrctlRetInt(unix.PR_GET_SECUREBITS, 0, 0, 0, 0)
	if err != nil {
		return fmt.Errorf("secure bits: %w", err)
	}
	if bits&locked != 0 {
		return nil // this thread, or its creator, has done all of this
	}
	if err := sp.netlink.Filter(); err != nil {
		return err
	}
	if err := credential.EmptyBounding(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, noRoot|locked, 0, 0, 0); err != nil {
		return fmt.Errorf("secure bits: %w", err)
	}
	return nil
}

// spareThreads is the number of threads that PrepareThreads prepares.
const spareThreads = 4

// PrepareThreads makes idle threads ready to fork from. Each thread needs about fifty system
// calls, which would delay the first command.
func (sp *Spawner) PrepareThreads() error {
	var errs [spareThreads]error
	var all, together sync.WaitGroup
	together.Add(spareThreads)
	for i := range errs {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			errs[i] = sp.dropPrivileges(nil)
			// Hold the thread until each goroutine has one.
			together.Done()
			together.Wait()
		})
	}
	all.Wait()
	return errors.Join(errs[:]...)
}
