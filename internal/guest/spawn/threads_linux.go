package spawn

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/credential"
)

// dropPrivileges makes the calling thread fit to fork from: what it forks can get no
// capability but those listed, also not by executing something as uid 0, and has its
// netlink sockets counted.
//
// A kernel of the guest's own may know no secure bits, as gVisor does. They are a
// second lock there: what uid 0 executes has the union of the bounding set, which is
// empty, and the inheritable one.
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
		return nil // it has done all of this, or the thread that made it
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

// spareThreads is how many threads are made fit to fork from ahead.
const spareThreads = 4

// PrepareThreads makes threads fit to fork from that wait for work: what a thread gives
// up takes it some fifty system calls, which a first command would have to wait for.
func (sp *Spawner) PrepareThreads() error {
	var errs [spareThreads]error
	var all, together sync.WaitGroup
	together.Add(spareThreads)
	for i := range errs {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			errs[i] = sp.dropPrivileges(nil)
			// Each holds its thread until every one has another.
			together.Done()
			together.Wait()
		})
	}
	all.Wait()
	return errors.Join(errs[:]...)
}
