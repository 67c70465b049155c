package dialout

import (
	"fmt"
	"io/fs"
)

// groups is where a container sees its control group.
const groups = "/sys/fs/cgroup"

// limits reads the limits of this container's control group: bytes of memory, and thousandths of a processor. 0 means that
// there is no limit, or that it cannot be read.
func limits(dir fs.FS) (memory, cpu int64) {
	numbers := func(files ...string) (out [2]int64) {
		var text []byte
		for _, file := range files {
			b, _ := fs.ReadFile(dir, file)
			text = append(append(text, b...), ' ')
		}
		_, _ = fmt.Sscan(string(text), &out[0], &out[1]) // "max" is no number
		return out
	}
	bytes, quota := numbers("memory.max"), numbers("cpu.max")
	if bytes[0] == 0 && quota[0] == 0 { // version 1, which gVisor has too
		bytes, quota = numbers("memory/memory.limit_in_bytes"), numbers("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")
	}
	if quota[1] > 0 {
		cpu = max(quota[0]*1000/quota[1], 0) // -1 is no limit
	}
	return max(bytes[0], 0), cpu
}
