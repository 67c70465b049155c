package footprint

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Memory is the proportional set size of processes, in bytes: a page that several processes have counts
// for each of them in part.
type Memory struct {
	All int64
	// Files is the part that is files in memory, which on gVisor are the memory of the programs and
	// files in the sandboxes.
	Files int64
}

// Of adds processes up, each address space once. whole is false if one of them cannot be read.
func Of(pids []int) (total Memory, whole bool) {
	whole = true
	for _, pid := range Spaces(pids) {
		m, ok := read(strconv.Itoa(pid))
		total.All, total.Files, whole = total.All+m.All, total.Files+m.Files, whole && ok
	}
	return total, whole
}

// Self is the memory of this process; false if it cannot be read.
func Self() (Memory, bool) { return read("self") }

// Below lists the processes that descend from this one, seen from outside of any namespace: among
// them is what a guest looks like on its host.
func Below() []int {
	kids := map[int][]int{}
	for pid, parent := range parents() {
		kids[parent] = append(kids[parent], pid)
	}
	out := slices.Clone(kids[os.Getpid()])
	for i := 0; i < len(out); i++ {
		out = append(out, kids[out[i]]...)
	}
	return out
}

// parents returns every process's parent.
func parents() map[int]int {
	out := map[int]int{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return out
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join("/proc", e.Name(), "status"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if v, ok := strings.CutPrefix(line, "PPid:"); ok {
				if parent, err := strconv.Atoi(strings.TrimSpace(v)); err == nil {
					out[pid] = parent
				}
			}
		}
	}
	return out
}

// read reads the memory of a process, a number or "self".
func read(pid string) (m Memory, ok bool) {
	f, err := os.Open(filepath.Join("/proc", pid, "smaps_rollup"))
	if err != nil {
		return m, false
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		name, v, _ := strings.Cut(s.Text(), ":")
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 64)
		switch {
		case err != nil:
		case name == "Pss":
			m.All, ok = kb*1024, true
		case name == "Pss_Shmem":
			m.Files = kb * 1024
		}
	}
	return m, ok
}

// Resident returns the resident set size of this process in MB.
func Resident() (float64, error) {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0, errors.New("/proc/self/statm is malformed")
	}
	pages, err := strconv.ParseInt(f[1], 10, 64)
	return float64(pages*int64(os.Getpagesize())) / 1e6, err
}
