package guest

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
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

// watchMemory enforces the limit on memory as well as a guest can: it looks
// again and again, and ends the largest group when all together are over it. What
// is faster than the looks is the host's to stop.
func (s *Server) watchMemory(ctx context.Context) {
	check, period := s.checkMemory, memoryPeriod
	if s.cfg.OwnKernel {
		w := &kernelMemory{s: s, used: machineMemory}
		check = w.check
	}
	t := time.NewTimer(period)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		t.Reset(check())
	}
}

// checkMemory sums up what processes have.
func (s *Server) checkMemory() time.Duration {
	if s.reaper.live() > 0 || s.cfg.PID1 {
		if groups, total := s.memoryGroups(); total > s.cfg.Memory {
			s.killLargest(groups)
		}
	}
	return memoryPeriod
}

// kernelMemory watches the memory of a whole kernel. What its processes have adds
// up to more, since they share pages, and to less, since files are kept in memory.
type kernelMemory struct {
	s    *Server
	used func() int64

	killed time.Time // when something was last killed
	then   int64     // what was used then, or the least that was since
}

// check says when to look again.
func (w *kernelMemory) check() time.Duration {
	used, limit := w.used(), w.s.cfg.Memory
	switch {
	case used > limit:
		// What was killed is still being taken apart, unless others go on taking: a
		// little more than there was is what a count of pages is wrong by.
		if used <= w.then+limit/32 && time.Since(w.killed) < memoryGrace {
			w.then = min(w.then, used)
			return memoryShort
		}
		groups, _ := w.s.memoryGroups()
		w.s.killLargest(groups)
		w.killed, w.then = time.Now(), used
		return memoryShort
	case used < limit-limit/8:
		w.killed = time.Time{} // it came back; what passes the limit now is somebody else's
	}
	switch {
	case used > limit/2:
		return memoryShort
	case w.s.reaper.live() == 0:
		return memoryIdle
	}
	return memoryPeriod
}

// machineMemory is what the machine has in use. For gVisor that is the size of the
// file that stands for its memory: what its host charges, up to the sandbox's own
// needs.
func machineMemory() int64 {
	var si unix.Sysinfo_t
	if err := unix.Sysinfo(&si); err != nil {
		return 0
	}
	return int64(si.Totalram-si.Freeram) * int64(max(1, si.Unit))
}

// memoryGroup is what the processes of a process group have together.
type memoryGroup struct{ rss, session int64 }

func (s *Server) memoryGroups() (groups map[int]*memoryGroup, total int64) {
	page := int64(os.Getpagesize())
	self := os.Getpid()
	groups = make(map[int]*memoryGroup)
	ours := make(map[int]bool)
	for _, p := range s.table.snapshot() {
		ours[p.pid] = true
	}
	eachProcess(func(pid int, st procStat) {
		// Outside a pid namespace of its own the guest sees what is not its.
		if pid == self || (!s.cfg.PID1 && !ours[st.pgrp] && !ours[st.session]) {
			return
		}
		g := groups[st.pgrp]
		if g == nil {
			g = &memoryGroup{session: int64(st.session)}
			groups[st.pgrp] = g
		}
		g.rss += st.rssPages * page
		total += st.rssPages * page
	})
	return groups, total
}

func (s *Server) killLargest(groups map[int]*memoryGroup) {
	var worst int
	for pgrp, g := range groups {
		if worst == 0 || g.rss > groups[worst].rss {
			worst = pgrp
		}
	}
	if worst <= 1 || worst == os.Getpid() {
		return
	}
	for _, p := range s.table.snapshot() {
		if p.pid == worst || p.pid == int(groups[worst].session) {
			s.kill(p, api.CauseMemory)
			return
		}
	}
	unix.Kill(-worst, unix.SIGKILL)
}
