package bench

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"

	"hortus.dev/internal/bench/footprint"
)

// own are the counters of this very process.
var own = []Counter{
	{Name: "resident memory", Unit: "MB", Count: func(context.Context) (float64, error) { return resident() }},
	{Name: "proportional memory", Unit: "MB", Count: func(context.Context) (float64, error) {
		n, ok := footprint.Self()
		if !ok {
			return 0, errors.New("/proc/self/smaps_rollup cannot be read")
		}
		return float64(n.All) / 1e6, nil
	}},
	{Name: "Go heap", Unit: "MB", Note: "live after a collection", Count: func(context.Context) (float64, error) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / 1e6, nil
	}},
	{Name: "descriptors", Count: func(context.Context) (float64, error) { return entries("/proc/self/fd") }},
	{Name: "goroutines", Count: func(context.Context) (float64, error) { return float64(runtime.NumGoroutine()), nil }},
	{Name: "threads", Count: func(context.Context) (float64, error) { return entries("/proc/self/task") }},
	{Name: "processes below it", Count: func(context.Context) (float64, error) { return float64(len(footprint.Below())), nil }},
	{Name: "mounts", Note: "in the daemon's namespace", Count: func(context.Context) (float64, error) { return lines("/proc/self/mountinfo") }},
	{Name: "control groups, whole host", Note: "of everybody, dying ones included", Count: func(context.Context) (float64, error) {
		b, err := os.ReadFile("/proc/cgroups")
		if err != nil {
			return 0, err
		}
		return float64(groups(string(b))), nil
	}},
}

// resident returns the resident set size in MB.
func resident() (float64, error) {
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

func entries(dir string) (float64, error) {
	e, err := os.ReadDir(dir)
	return float64(len(e)), err
}

func lines(file string) (float64, error) {
	b, err := os.ReadFile(file)
	return float64(bytes.Count(b, []byte("\n"))), err
}

// groups adds up the control groups of /proc/cgroups, each hierarchy once: its
// lines are controller, hierarchy, number of groups, enabled.
func groups(text string) int {
	byHierarchy := map[string]int{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 4 || strings.HasPrefix(line, "#") {
			continue
		}
		if n, err := strconv.Atoi(f[2]); err == nil {
			byHierarchy[f[1]] = n
		}
	}
	total := 0
	for _, n := range byHierarchy {
		total += n
	}
	return total
}
