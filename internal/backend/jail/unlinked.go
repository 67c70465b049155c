package jail

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/jail/keeper"
)

// maxOpen bounds how many open files one look goes through.
const maxOpen = 1 << 16

// unlinked adds up the files of the workspace that have no name any more and that a
// process of the sandbox holds open: they take room that no look at the directory
// finds. It stops at most. Files that are only mapped, or on their way through a
// socket, are not seen; the floor of the host's disk is what is left against those.
func (m *machine) unlinked(most int64) (bytes int64) {
	target := workspaceTarget
	if m.b.cfg.Kernel != nil { // which shows it there: its own processes hold the files
		target = keeper.WorkspaceDir
	}
	dev, ok := mountDevice(m.proc.Pid, target)
	if !ok {
		return 0
	}
	seen := map[uint64]bool{}
	looked := 0
	for _, pid := range processes(m.proc.Pid) {
		dir := fmt.Sprintf("/proc/%d/fd", pid)
		d, err := os.Open(dir)
		if err != nil {
			continue
		}
		for looked < maxOpen && bytes <= most {
			names, err := d.Readdirnames(256)
			for _, n := range names {
				looked++
				var st unix.Stat_t
				if unix.Stat(dir+"/"+n, &st) == nil && st.Nlink == 0 && uint64(st.Dev) == dev && !seen[st.Ino] {
					seen[st.Ino] = true
					bytes += st.Blocks * 512
				}
			}
			if err != nil || len(names) == 0 {
				break
			}
		}
		d.Close()
	}
	return bytes
}

// mountDevice finds the device number of what a process has mounted at a place.
func mountDevice(pid int, target string) (uint64, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 5 || f[4] != target {
			continue
		}
		major, minor, _ := strings.Cut(f[2], ":")
		a, err1 := strconv.ParseUint(major, 10, 32)
		i, err2 := strconv.ParseUint(minor, 10, 32)
		return unix.Mkdev(uint32(a), uint32(i)), err1 == nil && err2 == nil
	}
	return 0, false
}
