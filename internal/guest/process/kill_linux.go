package process

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/procfs"
)

const (
	// killPasses bounds how often the process table is walked for descendants that
	// were born while it was being walked.
	killPasses = 8
	// killWait bounds how long those who were sent their end are waited for, and
	// killLook is the first pause between two looks.
	killWait = 2 * time.Second
	killLook = time.Millisecond
)

// Kill ends a command and what it started: its group at once, and then every
// process that descends from it or is of its session. What left both is out of
// reach here; the end of the sandbox takes it.
func (m *Manager) Kill(p *Process, cause string) {
	p.setCause(cause)
	// The family is looked up before its head dies: afterwards its children
	// are the init's, and its number may be another's.
	family := map[int]bool{p.pid: true}
	if err := m.reaper.signal(p, unix.SIGSTOP); err != nil {
		return // it has ended by itself
	}
	for range killPasses {
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
	killBorn(family, p.pid)
	m.reaper.signal(p, unix.SIGKILL)
}

// killBorn ends what is born of a family that was sent its end, until nobody of it is
// left but the head: a fork that was on its way comes back all the same, and on
// gVisor's kernel also in a group that is killed as one.
func killBorn(family map[int]bool, head int) {
	pause := killLook
	for until := time.Now().Add(killWait); time.Now().Before(until); time.Sleep(pause) {
		var live []int
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
			family[pid] = true
			unix.Kill(pid, unix.SIGKILL)
		}
		pause = min(2*pause, 50*killLook)
	}
}

// descendants lists the processes whose parent is in family, or whose session
// or group is head's, and that are not in it yet.
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
