package procfs

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Stat has the fields of /proc/PID/stat that the guest uses.
type Stat struct {
	State                  byte
	Parent, Group, Session int
	CPUTicks               int64 // user and system time, in ticks of 10 ms
	RSSPages               int64
}

// Each calls f for every process that is visible in /proc.
func Each(f func(pid int, st Stat)) {
	buf := make([]byte, 1024)
	EachID(func(pid int) {
		if st, ok := readStat("/proc/"+strconv.Itoa(pid)+"/stat", buf); ok {
			f(pid, st)
		}
	})
}

// EachID calls f for the id of every process that is visible in /proc.
func EachID(f func(pid int)) {
	dir, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(256)
		for _, name := range names {
			if pid, err := strconv.Atoi(name); err == nil {
				f(pid)
			}
		}
		if err != nil || len(names) == 0 {
			return
		}
	}
}

func readStat(path string, buf []byte) (st Stat, ok bool) {
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

// parseStat parses /proc/PID/stat. The process chooses its name and may put anything into
// it, so parsing starts behind the last parenthesis.
func parseStat(s string) (st Stat, ok bool) {
	i := strings.LastIndexByte(s, ')')
	if i < 0 {
		return st, false
	}
	f := strings.Fields(s[i+1:])
	if len(f) < 22 {
		return st, false
	}
	st.State = f[0][0]
	st.Parent, _ = strconv.Atoi(f[1])
	st.Group, _ = strconv.Atoi(f[2])
	st.Session, _ = strconv.Atoi(f[3])
	user, _ := strconv.ParseInt(f[11], 10, 64)
	sys, _ := strconv.ParseInt(f[12], 10, 64)
	st.CPUTicks = user + sys
	st.RSSPages, _ = strconv.ParseInt(f[21], 10, 64)
	return st, true
}

// SetOOMScore makes the OOM killer prefer a process over those with a lower score: the maximum is 1000. To raise it needs no
// privilege; errors are ignored.
func SetOOMScore(pid, score int) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	unix.Write(fd, strconv.AppendInt(nil, int64(score), 10))
	unix.Close(fd)
}
