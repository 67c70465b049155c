package workdir

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/platform/proc"
)

// maxOpen is the maximum number of open files that one count reads.
const maxOpen = 1 << 16

// Unlinked counts the files of a workspace that have no name any more and that a process of
// the sandbox has open. They take space on the disk, and a walk of the directory does not
// find them. Files that are only mapped, or in transit over a socket, are not counted; the
// floor of the host's disk is the only limit for those.
type Unlinked struct {
	// PID is the sandbox's first process.
	PID int
	// Target is where that process sees the workspace; "" is /workspace.
	Target string
}

// bytes adds up their sizes. It may stop when most is exceeded.
func (u Unlinked) bytes(most int64) (bytes int64) {
	u.Target = cmp.Or(u.Target, target)
	dev, ok := mountDevice(u.PID, u.Target)
	if !ok {
		return 0
	}
	major, minor := unix.Major(dev), unix.Minor(dev)
	mounts := fmt.Sprintf("%d:%d", major, minor)
	// The process that has a file open need not see its mount: gVisor's gofer opens files for
	// the sandbox's own kernel.
	tree := proc.Tree(u.PID)
	ids := map[uint64]bool{}
	for _, pid := range tree {
		mountIDs(ids, pid, mounts)
	}
	seen := map[uint64]bool{}
	read := 0
	for _, pid := range tree {
		dir := fmt.Sprintf("/proc/%d/fd", pid)
		d, err := os.Open(dir)
		if err != nil {
			continue
		}
		for read < maxOpen && bytes <= most {
			names, err := d.Readdirnames(256)
			for _, n := range names {
				read++
				// Where layers are on another file system than the upper layer, the device
				// of a file is not that of the overlay, but its mount is one of it.
				var st unix.Statx_t
				if unix.Statx(unix.AT_FDCWD, dir+"/"+n, 0, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &st) != nil || st.Nlink != 0 {
					continue
				}
				in := st.Dev_major == major && st.Dev_minor == minor || st.Mask&unix.STATX_MNT_ID != 0 && ids[st.Mnt_id]
				if in && !seen[st.Ino] {
					seen[st.Ino] = true
					bytes += int64(st.Blocks) * 512
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

// mountDevice returns the device number of what is mounted at target in a process.
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

// mountIDs adds the numbers of all mounts of a file system that a process sees. A number is of
// one mount of the whole machine.
func mountIDs(ids map[uint64]bool, pid int, device string) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 5 || f[2] != device {
			continue
		}
		if id, err := strconv.ParseUint(f[0], 10, 64); err == nil {
			ids[id] = true
		}
	}
}
