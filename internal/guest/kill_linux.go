package guest

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
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

// kill ends a command and what it started: its group at once, and then every
// process that descends from it or is of its session. What left both is out of
// reach here; the end of the sandbox takes it.
func (s *Server) kill(p *process, cause string) {
	p.setCause(cause)
	// The family is looked up before its head dies: afterwards its children
	// are the init's, and its number may be another's.
	family := map[int]bool{p.pid: true}
	if err := s.reaper.signal(p, unix.SIGSTOP); err != nil {
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
	s.reaper.signal(p, unix.SIGKILL)
}

// killBorn ends what is born of a family that was sent its end, until nobody of it is
// left but the head: a fork that was on its way comes back all the same, and on
// gVisor's kernel also in a group that is killed as one.
func killBorn(family map[int]bool, head int) {
	pause := killLook
	for until := time.Now().Add(killWait); time.Now().Before(until); time.Sleep(pause) {
		var live []int
		eachProcess(func(pid int, st procStat) {
			own := st.session == head || st.pgrp == head || st.ppid != os.Getpid() && family[st.ppid]
			if own && pid != head && pid != os.Getpid() && st.state != 'Z' && st.state != 'X' {
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
	eachProcess(func(pid int, st procStat) {
		if pid == os.Getpid() || family[pid] {
			return
		}
		if family[st.ppid] || st.session == head || st.pgrp == head {
			added = append(added, pid)
		}
	})
	return added
}

// procStat is what is used of /proc/PID/stat.
type procStat struct {
	state               byte
	ppid, pgrp, session int
	cpuTicks            int64 // user and system
	rssPages            int64
}

// eachProcess calls f for every process that is visible here.
func eachProcess(f func(pid int, st procStat)) {
	dir, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer dir.Close()
	buf := make([]byte, 1024)
	for {
		names, err := dir.Readdirnames(256)
		for _, name := range names {
			pid, nerr := strconv.Atoi(name)
			if nerr != nil {
				continue
			}
			if st, ok := readStat("/proc/"+name+"/stat", buf); ok {
				f(pid, st)
			}
		}
		if err != nil || len(names) == 0 {
			return
		}
	}
}

func readStat(path string, buf []byte) (st procStat, ok bool) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return st, false
	}
	n, err := unix.Read(fd, buf)
	unix.Close(fd)
	if err != nil || n <= 0 {
		return st, false
	}
	return parseStat(string(buf[:n]))
}

// parseStat reads /proc/PID/stat. The name in it is the process's own choice and
// may hold anything, so reading starts behind the last parenthesis.
func parseStat(s string) (st procStat, ok bool) {
	i := strings.LastIndexByte(s, ')')
	if i < 0 {
		return st, false
	}
	f := strings.Fields(s[i+1:])
	if len(f) < 22 {
		return st, false
	}
	st.state = f[0][0]
	st.ppid, _ = strconv.Atoi(f[1])
	st.pgrp, _ = strconv.Atoi(f[2])
	st.session, _ = strconv.Atoi(f[3])
	user, _ := strconv.ParseInt(f[11], 10, 64)
	sys, _ := strconv.ParseInt(f[12], 10, 64)
	st.cpuTicks = user + sys
	st.rssPages, _ = strconv.ParseInt(f[21], 10, 64)
	return st, true
}

// raiseOOMScore makes a command a better victim than the guest when memory runs
// out. Raising needs no privilege; where it fails nothing is lost.
func raiseOOMScore(pid int) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	unix.Write(fd, []byte("500"))
	unix.Close(fd)
}
