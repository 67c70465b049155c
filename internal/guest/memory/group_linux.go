package memory

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// group is the control group of a container, which it sees at /sys/fs/cgroup. If its limit is exceeded, the kernel kills by
// the memory of processes: the guest has more than a program whose memory is in files and pipes.
type group struct {
	dir  fs.FS
	file string // the statistics
	plus []string
	less []string
}

// ownGroup finds the statistics. Both versions count what the kernel cannot free: not the cache of files on a disk, but those
// in memory. Version 2 adds what the kernel has for the group. Version 1 cannot tell that from its caches.
func ownGroup(dir fs.FS) (group, bool) {
	for _, g := range []group{
		{dir: dir, file: "memory.stat", plus: []string{"anon", "shmem", "sock", "kernel"}, less: []string{"slab_reclaimable"}},
		{dir: dir, file: "memory/memory.stat", plus: []string{"total_rss", "total_shmem"}},
	} {
		if g.used() > 0 {
			return g, true
		}
	}
	return group{}, false
}

// charged is the memory that the group is charged for, in bytes, with the cache of files; 0 if it is not known.
func (g group) charged() int64 {
	for _, file := range []string{"memory.current", "memory/memory.usage_in_bytes"} {
		if b, err := fs.ReadFile(g.dir, file); err == nil {
			n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
			return n
		}
	}
	return 0
}

// used is the memory in use, in bytes; 0 if it is not known.
func (g group) used() (n int64) {
	stat := fields(g.dir, g.file)
	for _, name := range g.plus {
		n += stat[name]
	}
	for _, name := range g.less {
		n -= stat[name]
	}
	return max(n, 0)
}

// Kills returns how many processes of the own control group the kernel has killed for their memory. ok is false where that is
// not known: at the root of the control groups, and in gVisor.
func Kills() (n int64, ok bool) { return kills(os.DirFS("/sys/fs/cgroup")) }

func kills(dir fs.FS) (n int64, ok bool) {
	for _, file := range []string{"memory.events", "memory/memory.oom_control"} {
		if n, ok = fields(dir, file)["oom_kill"]; ok {
			break
		}
	}
	return n, ok
}

// fields reads a file with a name and a number in each line.
func fields(dir fs.FS, file string) map[string]int64 {
	out := map[string]int64{}
	b, err := fs.ReadFile(dir, file)
	if err != nil {
		return out
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		out[name], _ = strconv.ParseInt(value, 10, 64)
	}
	return out
}

// ownMemory is the memory of this process alone, in bytes.
func ownMemory() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	var size, resident, shared int64
	if _, serr := fmt.Sscan(string(b), &size, &resident, &shared); err != nil || serr != nil {
		return 0
	}
	return (resident - shared) * int64(os.Getpagesize())
}
