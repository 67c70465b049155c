package memory

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/process"
	"hortus.dev/internal/guest/procfs"
)

const (
	// memoryPeriod is how often the guest compares memory with its limit.
	memoryPeriod = 75 * time.Millisecond
	// On a kernel of the guest's own a look is one system call, so it looks more
	// often when memory gets short, and seldom when nothing runs: a wake-up there
	// is dear.
	memoryShort = 10 * time.Millisecond
	memoryIdle  = 250 * time.Millisecond
	// memoryGrace is how long what was killed may take to give its memory back, while
	// no more is taken, before another is killed for it. A busy host takes seconds.
	memoryGrace = 10 * time.Second
)

// Watcher ends the largest process group when all together have more than a limit.
type Watcher struct {
	limit     int64 // bytes
	pid1      bool  // the guest sees the sandbox's processes only
	processes *process.Manager
	check     func() time.Duration // compares once, and says when to look again
}

// New returns a watcher for a configuration with a limit.
func New(cfg *birth.Config, processes *process.Manager) *Watcher {
	w := &Watcher{limit: cfg.Memory, pid1: cfg.PID1, processes: processes}
	w.check = w.checkProcesses
	if cfg.OwnKernel {
		w.check = (&kernelMemory{w: w, used: Used}).check
	}
	return w
}

// Run enforces the limit until ctx ends, as well as a guest can: it looks
// again and again. What is faster than the looks is the host's to stop.
func (w *Watcher) Run(ctx context.Context) {
	period := memoryPeriod
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

// checkProcesses sums up what processes have.
func (w *Watcher) checkProcesses() time.Duration {
	if w.processes.Count() > 0 || w.pid1 {
		if groups, total := w.groups(); total > w.limit {
			w.killLargest(groups)
		}
	}
	return memoryPeriod
}

// kernelMemory watches the memory of a whole kernel. What its processes have adds
// up to more, since they share pages, and to less, since files are kept in memory.
type kernelMemory struct {
	w    *Watcher
	used func() int64

	killed time.Time // when something was last killed
	then   int64     // what was used then, or the least that was since
}

// check says when to look again.
func (k *kernelMemory) check() time.Duration {
	used, limit := k.used(), k.w.limit
	switch {
	case used > limit:
		// What was killed is still being taken apart, unless others go on taking: a
		// little more than there was is what a count of pages is wrong by.
		if used <= k.then+limit/32 && time.Since(k.killed) < memoryGrace {
			k.then = min(k.then, used)
			return memoryShort
		}
		groups, _ := k.w.groups()
		k.w.killLargest(groups)
		k.killed, k.then = time.Now(), used
		return memoryShort
	case used < limit-limit/8:
		k.killed = time.Time{} // it came back; what passes the limit now is somebody else's
	}
	switch {
	case used > limit/2:
		return memoryShort
	case k.w.processes.Count() == 0:
		return memoryIdle
	}
	return memoryPeriod
}

// Used is what the machine has in use. For gVisor that is the size of the
// file that stands for its memory: what its host charges, up to the sandbox's own
// needs.
func Used() int64 {
	var si unix.Sysinfo_t
	if err := unix.Sysinfo(&si); err != nil {
		return 0
	}
	return int64(si.Totalram-si.Freeram) * int64(max(1, si.Unit))
}

// memoryGroup is what the processes of a process group have together.
type memoryGroup struct{ rss, session int64 }

func (w *Watcher) groups() (groups map[int]*memoryGroup, total int64) {
	page := int64(os.Getpagesize())
	self := os.Getpid()
	groups = make(map[int]*memoryGroup)
	ours := make(map[int]bool)
	for _, p := range w.processes.Live() {
		ours[p.PID()] = true
	}
	procfs.Each(func(pid int, st procfs.Stat) {
		// Outside a pid namespace of its own the guest sees what is not its.
		if pid == self || (!w.pid1 && !ours[st.Group] && !ours[st.Session]) {
			return
		}
		g := groups[st.Group]
		if g == nil {
			g = &memoryGroup{session: int64(st.Session)}
			groups[st.Group] = g
		}
		g.rss += st.RSSPages * page
		total += st.RSSPages * page
	})
	return groups, total
}

func (w *Watcher) killLargest(groups map[int]*memoryGroup) {
	var worst int
	for pgrp, g := range groups {
		if worst == 0 || g.rss > groups[worst].rss {
			worst = pgrp
		}
	}
	if worst <= 1 || worst == os.Getpid() {
		return
	}
	for _, p := range w.processes.Live() {
		if p.PID() == worst || p.PID() == int(groups[worst].session) {
			w.processes.Kill(p, api.CauseMemory)
			return
		}
	}
	unix.Kill(-worst, unix.SIGKILL)
}
