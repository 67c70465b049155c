package memory

import (
	"cmp"
	"context"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/process"
	"hortus.dev/internal/guest/procfs"
)

const (
	// checkInterval is the interval between comparisons of the memory use with the limit.
	checkInterval = 75 * time.Millisecond
	// On a kernel of the guest's own a check is one system call, so the guest checks more
	// often when memory gets short. A wake-up is expensive there: the guest checks no more often
	// than the free memory needs, and less often while no command runs.
	shortInterval = 10 * time.Millisecond
	idleInterval  = 250 * time.Millisecond
	// killGrace is how long a killed process may take to release its memory before
	// another one is killed, unless memory use grows. On a busy host this takes seconds.
	killGrace = 10 * time.Second
)

// Watcher kills the largest process when the memory use exceeds the limit.
type Watcher struct {
	limit     int64 // bytes
	pid1      bool  // the guest sees the sandbox's processes only
	processes *process.Manager
	check     func() time.Duration // compares once and returns the time until the next check
	charged   func() int64         // nil if it is not known
	own       func() int64         // of charged, what is no cache of files on a disk; nil if it is not known
	kernel    func() (n int64, ok bool)
	killed    atomic.Int64 // by this watcher
}

// New returns a watcher for a configuration with a limit.
func New(cfg *birth.Config, processes *process.Manager) *Watcher {
	w := &Watcher{limit: cfg.Memory, pid1: cfg.PID1, processes: processes}
	w.check, w.kernel = w.checkProcesses, Kills
	switch {
	case cfg.OwnKernel:
		w.check = (&kernelMemory{w: w, used: Used}).check
	case cfg.Gvisor: // which has no statistics of a control group, and kills nothing
		w.charged, w.kernel = Used, func() (int64, bool) { return 0, true }
		w.check = (&kernelMemory{w: w, used: func() int64 { return Used() - ownMemory() }}).check
	case cfg.OwnMachine && cfg.PID1: // a container of its own
		if g, ok := ownGroup(os.DirFS("/sys/fs/cgroup")); ok {
			w.check = (&kernelMemory{w: w, used: func() int64 { return g.used() - ownMemory() }, kills: Kills}).check
			w.charged, w.own = g.charged, g.used
		}
	}
	return w
}

// Kills returns how many processes the kernel and this watcher have killed for their memory. ok is false if that is not known.
func (w *Watcher) Kills() (n int64, ok bool) {
	n, ok = w.kernel()
	return n + w.killed.Load(), ok
}

// Charged returns the memory that the sandbox is charged for, in bytes: also that of files. It is 0 if that is not known. own is the part
// that is no cache of files on a disk; -1 if that is not known.
func (w *Watcher) Charged() (n, own int64) {
	own = -1
	if w.charged != nil {
		n = w.charged()
	}
	if w.own != nil {
		own = w.own()
	}
	return n, own
}

// Run enforces the limit by polling until ctx ends. The host must stop what is allocated
// between two checks.
func (w *Watcher) Run(ctx context.Context) {
	period := checkInterval
	t := time.NewTimer(period)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		t.Reset(w.check())
	}
}

// checkProcesses compares the sum over all processes.
func (w *Watcher) checkProcesses() time.Duration {
	if w.processes.Count() > 0 || w.pid1 {
		if all, total := w.members(); total > w.limit {
			w.killLargest(all)
		}
	}
	return checkInterval
}

// kernelMemory checks the memory of a whole kernel, or of a control group. The sum over processes is wrong in
// two ways: it counts shared pages several times, and omits files that are kept in memory.
type kernelMemory struct {
	w    *Watcher
	used func() int64
	// kills counts the processes that the kernel has killed for memory; nil if it kills none, or the guest cannot know.
	kills func() (n int64, ok bool)

	killed time.Time // when a process was last killed, here or by the kernel
	then   int64     // lowest use since then, in bytes
	seen   int64     // the kernel's kills
}

// check compares once and returns the time until the next check.
func (k *kernelMemory) check() time.Duration {
	used, limit := k.used(), k.w.limit
	switch {
	case used > limit:
		// The killed process is still releasing memory, unless others allocate: ignore an
		// increase of up to limit/32, the error of the measurement.
		if used <= k.then+limit/32 && time.Since(k.killed) < killGrace {
			k.then = min(k.then, used)
			return shortInterval
		}
		// What the kernel has just killed is releasing its memory too: the largest of the others is not to blame.
		if !k.kernelKilled() {
			all, _ := k.w.members()
			k.w.killLargest(all)
		}
		k.killed, k.then = time.Now(), used
		return shortInterval
	case used < limit-limit/8:
		k.killed = time.Time{} // the memory was released; the next excess has another cause
	}
	switch {
	case used > limit/2:
		return interval(limit-used, limit)
	case k.w.processes.Count() == 0:
		return idleInterval
	}
	return checkInterval
}

// kernelKilled reports whether the kernel has killed a process for memory since the last call.
func (k *kernelMemory) kernelKilled() bool {
	if k.kills == nil {
		return false
	}
	n, ok := k.kills()
	was := k.seen
	if ok {
		k.seen = n
	}
	return ok && n > was
}

// interval is the time until the next check if more than half of limit is in use: in
// proportion to what is free, from checkInterval for a half to shortInterval.
func interval(free, limit int64) time.Duration {
	return max(shortInterval, time.Duration(float64(checkInterval)*2*float64(free)/float64(limit)))
}

// Used returns the memory in use, in bytes. In gVisor that is the size of its memory file:
// what the host charges, except for the sandbox's own overhead. The total there is the limit,
// and what exceeds it, which Linux does not have, is reported as buffers.
func Used() int64 {
	var si unix.Sysinfo_t
	if err := unix.Sysinfo(&si); err != nil {
		return 0
	}
	return int64(si.Totalram-si.Freeram+si.Bufferram) * int64(max(1, si.Unit))
}

// member is a process of the sandbox.
type member struct {
	parent, group, session int
	rss                    int64 // bytes
}

// members returns the processes of the sandbox, by their ids, and their memory.
func (w *Watcher) members() (all map[int]member, total int64) {
	page := int64(os.Getpagesize())
	self := os.Getpid()
	all = make(map[int]member)
	ours := make(map[int]bool)
	for _, p := range w.processes.Live() {
		ours[p.PID()] = true
	}
	procfs.Each(func(pid int, st procfs.Stat) {
		// Without a pid namespace of its own the guest sees processes that are not the
		// sandbox's.
		if pid == self || (!w.pid1 && !ours[st.Group] && !ours[st.Session]) {
			return
		}
		m := member{st.Parent, st.Group, st.Session, st.RSSPages * page}
		all[pid] = m
		total += m.rss
	})
	return all, total
}

// killLargest kills the process with the most memory. As with Linux's, the others continue: a
// shell sees what became of the program that it started.
func (w *Watcher) killLargest(all map[int]member) {
	worst := 0
	for pid, m := range all {
		if worst == 0 || m.rss > all[worst].rss || m.rss == all[worst].rss && pid > worst {
			worst = pid
		}
	}
	if worst <= 1 {
		return
	}
	w.killed.Add(1)
	if p := w.command(all, worst); p != nil {
		if p.PID() == worst {
			w.processes.Kill(p, api.CauseMemory)
			return
		}
		p.LosesMemory()
	}
	unix.Kill(worst, unix.SIGKILL)
}

// command returns the command that started a process, or is it; nil if that is not known.
func (w *Watcher) command(all map[int]member, pid int) *process.Process {
	live := map[int]*process.Process{}
	for _, p := range w.processes.Live() {
		live[p.PID()] = p
	}
	m := all[pid]
	for range all { // the parents of a process that ended meanwhile may be a circle
		if p := live[pid]; p != nil {
			return p
		}
		pid = all[pid].parent
	}
	return cmp.Or(live[m.group], live[m.session])
}
