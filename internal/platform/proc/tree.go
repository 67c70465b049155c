package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// maxTree is the maximum number of processes of a tree that are read.
const maxTree = 1 << 16

// Usage is the sum over a tree of processes.
type Usage struct {
	Processes int64
	Tasks     int64 // processes and their threads
	CPU       time.Duration
	Memory    int64 // resident bytes; shared pages are counted for each process
}

// TreeUsage sums up a process and its descendants. For the init of a pid namespace
// that is the whole namespace, because an orphan becomes its child.
func TreeUsage(pid int) Usage {
	var u Usage
	walk(pid, func(pid int) bool {
		s, err := Read(pid)
		if err != nil {
			return false
		}
		u.CPU += s.CPU
		u.Processes++
		u.Tasks += s.Threads
		u.Memory += s.Memory
		return true
	})
	return u
}

// Tree lists a process and its descendants.
func Tree(pid int) (all []int) {
	walk(pid, func(pid int) bool {
		all = append(all, pid)
		return true
	})
	return all
}

// walk visits a process and its descendants, but not those of a process for which
// visit returns false.
func walk(pid int, visit func(pid int) bool) {
	queue := []int{pid}
	for n := 0; n < len(queue) && n < maxTree; n++ {
		if visit(queue[n]) {
			queue = append(queue, children(queue[n])...)
		}
	}
}

// children lists the child processes of a process.
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
