package process

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reaper waits for every child that ends: commands, and orphans, because the guest is init
// or subreaper. Only the reaper knows exit statuses.
type reaper struct {
	mu      sync.Mutex
	changed sync.Cond        // signalled when a fork ends
	procs   map[int]*Process // commands that are alive
	began   uint64           // number of forks that have begun
	ended   uint64           // number of forks that have ended
	forking map[uint64]bool  // the numbers of those that have not ended
}

func newReaper() *reaper {
	r := &reaper{procs: make(map[int]*Process), forking: make(map[uint64]bool)}
	r.changed.L = &r.mu
	return r
}

// fork calls start, and records the process that it started before the reaper can collect
// it.
func (r *reaper) fork(p *Process, start func() (int, error)) error {
	r.mu.Lock()
	r.began++
	n := r.began
	r.forking[n] = true
	r.mu.Unlock()
	pid, err := start()
	r.mu.Lock()
	delete(r.forking, n)
	r.ended++
	if err == nil {
		p.pid = pid
		r.procs[pid] = p
	}
	r.mu.Unlock()
	r.changed.Broadcast()
	return err
}

// run collects children for as long as the guest lives.
func (r *reaper) run() {
	for {
		// WNOWAIT: the pid is not reused until collect knows whose it is.
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil)
		switch err {
		case nil:
			r.collect(siginfoPid(&info))
		case unix.ECHILD:
			r.mu.Lock()
			for n := r.ended; len(r.procs) == 0 && r.ended == n; {
				r.changed.Wait()
			}
			r.mu.Unlock()
		}
	}
}

// reap collects a command that has ended. It returns false if the status is not available
// yet, because another process traces the command; then the reaper reports the end later.
func (r *reaper) reap(p *Process) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.procs[p.pid] == p {
		r.reapLocked(p.pid)
	}
	return r.procs[p.pid] != p || !p.awaitReaper()
}

// collect collects a child that has ended.
func (r *reaper) collect(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.procs[pid] == nil {
		// The fork of a command may not have been recorded yet. Wait for the forks that
		// have begun by now; afterwards an unknown pid is an orphan.
		for last := r.began; r.procs[pid] == nil && r.unrecorded(last); {
			r.changed.Wait()
		}
	}
	r.reapLocked(pid)
}

// unrecorded reports whether a fork with that number or a lower one has not been recorded. The
// caller holds the lock.
func (r *reaper) unrecorded(last uint64) bool {
	for n := range r.forking {
		if n <= last {
			return true
		}
	}
	return false
}

// reapLocked collects a child if it has ended. The caller holds the lock.
func (r *reaper) reapLocked(pid int) {
	var ws unix.WaitStatus
	for {
		got, err := unix.Wait4(pid, &ws, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || got != pid {
			return
		}
		break
	}
	if p := r.procs[pid]; p != nil {
		delete(r.procs, pid)
		p.exited(ws)
	}
}

// signal sends sig to the process group of a command, if its pid cannot have been reused.
func (r *reaper) signal(p *Process, sig unix.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.procs[p.pid] != p {
		return unix.ESRCH
	}
	err := unix.Kill(-p.pid, sig)
	if err == unix.ESRCH { // it has no group of its own yet, or left it
		err = unix.Kill(p.pid, sig)
	}
	return err
}

// live counts the commands that are alive.
func (r *reaper) live() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.procs)
}

// siginfoPid reads si_pid of a siginfo that waitid filled.
func siginfoPid(info *unix.Siginfo) int {
	// si_pid is the first field of the union behind si_signo, si_errno and si_code. The
	// union is aligned to a word.
	off := unsafe.Sizeof(uintptr(0))
	if off < 8 {
		return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), 12)))
	}
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), 16)))
}
