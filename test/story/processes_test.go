package story

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// process is what /proc says of one.
type process struct {
	pid, parent int
	state       byte
	args        []string
}

func (p process) String() string {
	return fmt.Sprintf("%d (child of %d, %c) %q", p.pid, p.parent, p.state, p.args)
}

// processes lists every process that can be seen; those that go meanwhile are
// left out.
func processes() []process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok {
			out = append(out, p)
		}
	}
	return out
}

func readProcess(pid int) (process, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, false
	}
	i := bytes.LastIndexByte(b, ')')
	f := strings.Fields(string(b[i+1:]))
	if i < 0 || len(f) < 2 {
		return process{}, false
	}
	p := process{pid: pid, state: f[0][0]}
	p.parent, _ = strconv.Atoi(f[1])
	if b, err = os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && len(b) > 0 {
		p.args = strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
	}
	return p, true
}

// descendants lists the living processes below one.
func descendants(root int) []process {
	all := processes()
	below := map[int]bool{root: true}
	for grew := true; grew; {
		grew = false
		for _, p := range all {
			if below[p.parent] && !below[p.pid] {
				below[p.pid], grew = true, true
			}
		}
	}
	var out []process
	for _, p := range all {
		if p.pid != root && below[p.pid] && p.state != 'Z' {
			out = append(out, p)
		}
	}
	return out
}

// orphans lists what lost its parent in a story: the reaper's children that are
// neither this test nor a daemon.
func orphans() []process {
	var out []process
	for _, p := range processes() {
		if p.parent == os.Getppid() && p.pid != os.Getpid() && p.state != 'Z' && !isDaemon(p) {
			out = append(out, p)
		}
	}
	return out
}

func isDaemon(p process) bool { return len(p.args) > 2 && p.args[1] == "daemon" && p.args[2] == "run" }

// daemonOf finds the daemon of a data directory, 0 when none runs.
func daemonOf(dir string) int {
	for _, p := range processes() {
		if p.state == 'Z' || !isDaemon(p) {
			continue
		}
		for _, a := range p.args {
			if a == dir {
				return p.pid
			}
		}
	}
	return 0
}
