package process

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/procfs"
)

const (
	// maxKillPasses is the maximum number of walks over the process table for descendants
	// that were forked during the last walk.
	maxKillPasses = 8
	// killTimeout is how long Kill waits for killed processes, on a busy machine too: what a
	// fork bomb forks meanwhile would survive. killInterval is the first pause between two
	// checks.
	killTimeout  = 15 * time.Second
	killInterval = time.Millisecond
)

// Kill kills a command, its process group, its session and all its descendants. A process
// that has left all of these survives until the sandbox ends.
func (m *Manager) Kill(p *Process, cause string) {
	p.setCause(cause)
	// Find the descendants before the command dies: afterwards init is the parent of its
	// children, and its pid may be reused.
	family := map[int]bool{p.pid: true}
	if err := m.reaper.signal(p, unix.SIGSTOP); err != nil {
		return // it has ended
	}
	for range maxKillPasses {
		added := descendants(family, p.pid)
		for _, pid := range added {
			family[pid] = true
			unix.Kill(pid, unix.SIGSTOP)
		}
		if len(added) == 0 {
			break
		}
	}
	for pid := range family {
		if pid != p.pid {
			unix.Kill(pid, unix.SIGKILL)
		}
	}
	killLateForks(family, p.pid)
	m.reaper.signal(p, unix.SIGKILL)
}

// killLateForks kills processes that are forked while their parents are being killed, until
// only the head is left. Such a fork can still succeed, on gVisor even after the whole group
// was killed.
func killLateForks(family map[int]bool, head int) {
	pause := killInterval
	for until := time.Now().Add(killTimeout); time.Now().Before(until); time.Sleep(pause) {
		var live []int
		forked := false
		procfs.Each(func(pid int, st procfs.Stat) {
			own := st.Session == head || st.Group == head || st.Parent != os.Getpid() && family[st.Parent]
			if own && pid != head && pid != os.Getpid() && st.State != 'Z' && st.State != 'X' {
				live = append(live, pid)
			}
		})
		if len(live) == 0 {
			return
		}
		for _, pid := range live {
			forked = forked || !family[pid]
			family[pid] = true
			unix.Kill(pid, unix.SIGKILL)
		}
		if pause = min(2*pause, 50*killInterval); forked {
			pause = killInterval
		}
	}
}

// descendants lists the processes that are not in family yet and whose parent is in family,
// or whose session or group is head's.
func descendants(family map[int]bool, head int) (added []int) {
	procfs.Each(func(pid int, st procfs.Stat) {
		if pid == os.Getpid() || family[pid] {
			return
		}
		if family[st.Parent] || st.Session == head || st.Group == head {
			added = append(added, pid)
		}
	})
	return added
}
