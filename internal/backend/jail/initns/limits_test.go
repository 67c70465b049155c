package initns

import (
	"strings"
	"testing"
)

func TestProcessorList(t *testing.T) {
	for want, list := range map[string][]int{"": nil, "0": {0}, "0-2": {0, 1, 2}, "1,3-4,9": {1, 3, 4, 9}} {
		if got := processorList(list); got != want {
			t.Errorf("%v: %q, want %q", list, got, want)
		}
	}
}

// TestProcFiles makes files of those of a machine with four processors and 8 GiB.
func TestProcFiles(t *testing.T) {
	host := func(name string) string {
		switch name {
		case "meminfo":
			return "MemTotal:        8388608 kB\nMemFree:         1000 kB\n"
		case "cpuinfo":
			var parts []string
			for _, n := range []string{"0", "1", "2", "3"} {
				parts = append(parts, "processor\t: "+n+"\nmodel name\t: x "+n)
			}
			return strings.Join(parts, "\n\n") + "\n\nHardware\t: y\n"
		case "stat":
			return "cpu  1 2 3\ncpu0 1 2 3\nintr 99 1\nctxt 5\nbtime 1700000000\nprocesses 9\n"
		}
		return ""
	}
	files := (&Limits{MemoryBytes: 1 << 30, CPUs: 1.5, Processors: []int{1, 3}}).procFiles(host)
	if got := memTotal(files["meminfo"]); got != 1<<30 {
		t.Errorf("meminfo has a total of %d bytes", got)
	}
	if want := "processor\t: 1\nmodel name\t: x 1\n\nprocessor\t: 3\nmodel name\t: x 3\n\nHardware\t: y\n\n"; files["cpuinfo"] != want {
		t.Errorf("cpuinfo: %q", files["cpuinfo"])
	}
	if s := files["stat"]; strings.Count(s, "\ncpu") != 2 || !strings.Contains(s, "\ncpu3 0") || !strings.Contains(s, "btime 1700000000\n") || strings.Contains(s, "99") {
		t.Errorf("stat: %q", s)
	}
	if _, ok := files["cgroups"]; ok {
		t.Error("there is a list of control groups without version 2")
	}
	// What the machine does not exceed is the machine's.
	if files := (&Limits{MemoryBytes: 16 << 30, CPUs: 4}).procFiles(host); len(files) != 0 {
		t.Errorf("limits above the machine: %v", files)
	}
	if files := (*Limits)(nil).procFiles(host); len(files) != 0 {
		t.Errorf("no limits: %v", files)
	}
}
