package reaper

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"hortus.dev/internal/platform/proc"
)

// Process is a process as described in /proc.
type Process struct {
	PID, Parent int
	State       byte // as in /proc/PID/stat; 'Z' is a zombie
	Args        []string
}

func (p Process) String() string {
	return fmt.Sprintf("%d (child of %d, %c) %q", p.PID, p.Parent, p.State, p.Args)
}

// Processes returns all visible processes, except for those that end in the meantime.
func Processes() []Process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []Process
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

func readProcess(pid int) (Process, bool) {
	st, err := proc.Read(pid)
	if err != nil {
		return Process{}, false
	}
	p := Process{PID: pid, Parent: st.Parent, State: st.State}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && len(b) > 0 {
		p.Args = strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
	}
	return p, true
}

// Descendants returns the running descendants of a process.
func Descendants(root int) []Process {
	all := Processes()
	below := map[int]bool{root: true}
	for grew := true; grew; {
		grew = false
		for _, p := range all {
			if below[p.Parent] && !below[p.PID] {
				below[p.PID], grew = true, true
			}
		}
	}
	var out []Process
	for _, p := range all {
		if p.PID != root && below[p.PID] && p.State != 'Z' {
			out = append(out, p)
		}
	}
	return out
}
