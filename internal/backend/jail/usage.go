package jail

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// maxScan bounds how many processes a count looks at.
const maxScan = 1 << 16

// use is what the process table tells of a tree of processes.
type use struct {
	processes int64
	tasks     int64 // processes and their threads
	cpu       time.Duration
	memory    int64 // resident, pages that are shared counted for each
}

// usage walks the children of a pid namespace's init. Every process of the
// namespace is below it: an orphan becomes its child.
func usage(pid int) use {
	const tick = time.Second / 100 // USER_HZ is 100 wherever Linux runs Go
	var u use
	queue := []int{pid}
	for n := 0; n < len(queue) && n < maxScan; n++ {
		dir := fmt.Sprintf("/proc/%d", queue[n])
		b, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue
		}
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(f) < 22 {
			continue
		}
		num := func(i int) int64 {
			v, _ := strconv.ParseInt(f[i], 10, 64)
			return v
		}
		// Fields 14 to 17, 20 and 24 of proc(5).
		u.cpu += time.Duration(num(11)+num(12)+num(13)+num(14)) * tick
		u.processes++
		u.tasks += num(17)
		u.memory += num(21) * int64(os.Getpagesize())
		queue = append(queue, children(queue[n])...)
	}
	return u
}

// processes lists a pid namespace's init and what is below it, at most maxScan.
func processes(pid int) []int {
	queue := []int{pid}
	for n := 0; n < len(queue) && n < maxScan; n++ {
		queue = append(queue, children(queue[n])...)
	}
	return queue[:min(len(queue), maxScan)]
}

// children lists the processes that another one has.
func children(pid int) (all []int) {
	dir := fmt.Sprintf("/proc/%d/task/", pid)
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, t := range tasks {
		b, err := os.ReadFile(dir + t.Name() + "/children")
		if err != nil {
			continue
		}
		for _, c := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(c); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// cpus is how many processors a sandbox can use at the same time, at least 1.
func cpus(share float64) int64 {
	n := int64(runtime.NumCPU())
	if share > 0 {
		n = min(n, int64(share)+1)
	}
	return max(n, 1)
}
