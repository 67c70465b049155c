package docker

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"hortus.dev/internal/backend/jail/cgroup"
)

// groups are the control groups of a process of this machine: their directories by controller, with
// that of version 2 as "". They say what the engine does not.
type groups map[string]string

// groupOf reads the control groups of a process. It returns none if the process has ended, or if the
// machine has them elsewhere.
func groupOf(pid int) groups {
	if pid <= 1 {
		return nil
	}
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return nil
	}
	g := groups{}
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		for name := range strings.SplitSeq(f[1], ",") {
			g[name] = filepath.Join("/sys/fs/cgroup", name, f[2])
		}
	}
	return g
}

// limitSockets limits the memory of sockets, which control groups of version 1 count separately and for
// which the engine has no limit. With version 2 there is nothing to do.
func (g groups) limitSockets(memory int64) error {
	dir, ok := g["memory"]
	if !ok || memory == 0 {
		return nil
	}
	return os.WriteFile(filepath.Join(dir, "memory.kmem.tcp.limit_in_bytes"), []byte(strconv.FormatInt(cgroup.SocketMemory(memory), 10)), 0)
}

// read reads a file of a controller, in the form of version 1 or of version 2.
func (g groups) read(controller, one, two string) []byte {
	if dir, ok := g[controller]; ok {
		b, err := os.ReadFile(filepath.Join(dir, one))
		if err == nil {
			return b
		}
	}
	if dir, ok := g[""]; ok {
		b, err := os.ReadFile(filepath.Join(dir, two))
		if err == nil {
			return b
		}
	}
	return nil
}

// memoryKills is the number of processes that were killed for memory; -1 if it is not known.
func (g groups) memoryKills() int64 {
	for line := range strings.Lines(string(g.read("memory", "memory.oom_control", "memory.events"))) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
			if k, err := strconv.ParseInt(n, 10, 64); err == nil {
				return k
			}
		}
	}
	return -1
}

// processes is the number of processes; -1 if it is not known.
func (g groups) processes() int64 {
	b := g.read("pids", "cgroup.procs", "cgroup.procs")
	if b == nil {
		return -1
	}
	return int64(bytes.Count(b, []byte("\n")))
}

// thawed reports that processes run, as far as it is known.
func (g groups) thawed() bool {
	switch strings.TrimSpace(string(g.read("freezer", "freezer.state", "cgroup.freeze"))) {
	case "THAWED", "0":
		return true
	}
	return false
}
