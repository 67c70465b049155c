package process

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reaper collects every child that ends: commands, and as init or subreaper the
// orphans that they leave. It alone knows exit statuses.
type reaper struct {
	mu      sync.Mutex
	changed sync.Cond        // a fork ended
	procs   map[int]*Process // commands that are alive
	began   uint64           // the number of the last fork
	ended   uint64           // how many forks have ended
	forking map[uint64]bool  // the numbers of those that have not
}

func newReaper() *reaper {
	r := &reaper{procs: make(map[int]*Process), forking: make(map[uint64]bool)}
	r.changed.L = &r.mu
	return r
}

// fork runs start and records the process that it started before its end can be
// collected.
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
		// Only look: the pid stays taken until it is known whose it was.
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

// reap takes the status of a command that has ended. It is false for one whose
// status is not to be had yet, because another process traces it: the reaper
// tells when it is.
func (r *reaper) reap(p *Process) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.procs[p.pid] == p {
		r.reapLocked(p.pid)
	}
	return r.procs[p.pid] != p || !p.awaitReaper()
}

// collect takes the status of a child that has ended.
func (r *reaper) collect(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.procs[pid] == nil {
		// A command's own fork may not have come back yet. Wait for those that
		// have begun, which are not the next that end: others may begin and end
		// meanwhile. After them an unknown pid is an orphan.
		for last := r.began; r.procs[pid] == nil && r.unrecorded(last); {
			r.changed.Wait()
		}
	}
	r.reapLocked(pid)
}

// unrecorded says whether a fork that is no later than the one with that number has
// not been recorded. The caller holds the lock.
func (r *reaper) unrecorded(last uint64) bool {
	for n := range r.forking {
		if n <= last {
			return true
		}
	}
	return false
}

// reapLocked takes a child's status if it has ended.
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

// signal sends sig to the command's group, and to the command itself, while it
// is certain that its pid is its own.
func (r *reaper) signal(p *Process, sig unix.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.procs[p.pid] != p {
		return unix.ESRCH
	}
	err := unix.Kill(-p.pid, sig)
	if err == unix.ESRCH { // a group of its own is not there yet, or left
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

// siginfoPid reads si_pid of a siginfo that waitid filled in.
func siginfoPid(info *unix.Siginfo) int {
	// si_signo, si_errno and si_code come first, then the union, aligned to a
	// word; si_pid is the first of it.
	off := unsafe.Sizeof(uintptr(0))
	if off < 8 {
		return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), 12)))
	}
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), 16)))
}
