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

// used is the memory in use, in bytes; 0 if it is not known.
func (g group) used() (n int64) {
	b, err := fs.ReadFile(g.dir, g.file)
	if err != nil {
		return 0
	}
	stat := map[string]int64{}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		stat[name], _ = strconv.ParseInt(value, 10, 64)
	}
	for _, name := range g.plus {
		n += stat[name]
	}
	for _, name := range g.less {
		n -= stat[name]
	}
	return max(n, 0)
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
