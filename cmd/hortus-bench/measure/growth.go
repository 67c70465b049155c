package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"hortus.dev/cmd/hortus-bench/figure"
	"hortus.dev/cmd/hortus-bench/footprint"
	"hortus.dev/internal/daemon"
)

// Rows of the measurement "growth"; the way or what was counted follows.
const (
	rowWhole  = "create, run, destroy, "
	rowGrowth = "growth, "
)

// per is the number of sandboxes that a growth is reported for.
const per = 1000

// growth takes sandboxes through their whole life, one after another, and counts
// what the daemon holds before and after.
func (r *run) growth(ctx context.Context, backend string, w way) error {
	// What is made once and kept (caches, pages of the database) is made before
	// the first count.
	n, warmUp := 5*r.N, min(r.N/4+1, 50)
	for range warmUp {
		if _, err := r.alone(ctx, w, backend); err != nil {
			return err
		}
	}
	before, err := r.countAll(ctx, nil)
	if err != nil {
		return err
	}
	middle := before
	times := make([]time.Duration, 0, n)
	for i := range n {
		r.step(backend, i, n)
		if i == n/2 {
			if middle, err = r.countAll(ctx, before); err != nil {
				return err
			}
		}
		if err := r.quiet(ctx); err != nil {
			return err
		}
		start := time.Now()
		if err := r.whole(ctx, w, backend); err != nil {
			return err
		}
		times = append(times, time.Since(start))
	}
	r.step(backend, n, n)
	after, err := r.countAll(ctx, before)
	if err != nil {
		return err
	}

	tenth := max(n/10, 1)
	row := figure.Row{Name: rowWhole + w.name, Backend: backend}
	row.Note = fmt.Sprintf("p50 of the first %d: %.2f ms, of the last %d: %.2f ms",
		tenth, figure.Median(times[:tenth]), tenth, figure.Median(times[n-tenth:]))
	if w.note != "" {
		row.Note = w.note + "; " + row.Note
	}
	r.times(row, times, 0)
	for i, c := range before {
		name := rowGrowth + c.Name + ", " + w.name
		if err := errors.Join(c.err, after[i].err); err != nil {
			r.report(figure.Missing(name, backend, err.Error()))
			continue
		}
		row := figure.Row{Name: name, Backend: backend, N: n, Unit: strings.TrimSpace(fmt.Sprintf("%s per %d", c.Unit, per)),
			Before: c.value, After: after[i].value, Note: halves(c, middle[i], after[i])}
		row.Value = (row.After - row.Before) / float64(n) * per
		r.report(row)
	}
	return nil
}

// halves distinguishes a cache that fills up from a leak, which continues: how much came in
// the first half and how much in the second.
func halves(before, middle, after count) string {
	const least = 0.005
	first, second := middle.value-before.value, after.value-middle.value
	if math.Abs(first) < least && math.Abs(second) < least {
		return before.Note
	}
	text := fmt.Sprintf("first half %+.2f, second half %+.2f", first, second)
	if before.Note != "" {
		text += "; " + before.Note
	}
	return text
}

// counter counts something that must not grow with the sandboxes that were made.
type counter struct {
	// Name and Unit are the row's; Note says what the count includes.
	Name, Unit, Note string
	Count            func(context.Context) (float64, error)
}

// count is what a counter gave.
type count struct {
	counter
	value float64
	err   error
}

// countAll counts everything. Given an earlier count it waits a while for what
// ends a moment after the last sandbox did: goroutines and connections that were
// asked to end, processes that are being reaped.
func (b *Bench) countAll(ctx context.Context, before []count) ([]count, error) {
	if err := b.quiet(ctx); err != nil {
		return nil, err
	}
	const most = 2 * time.Second
	deadline := time.Now().Add(most)
	for {
		now, err := b.census(ctx)
		if err != nil || before == nil || time.Now().After(deadline) {
			return now, err
		}
		more := func(c count) bool {
			i := slices.IndexFunc(before, func(p count) bool { return p.Name == c.Name })
			return c.Unit == "" && c.value > before[i].value
		}
		if !slices.ContainsFunc(now, more) {
			return now, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// census counts what this process holds, after a garbage collection. A count that
// this host does not give has an error, and is no reason to measure nothing.
func (b *Bench) census(ctx context.Context) ([]count, error) {
	runtime.GC()
	debug.FreeOSMemory()
	var out []count
	for _, c := range append(slices.Clone(own), b.counters...) {
		v, err := c.Count(ctx)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		out = append(out, count{c, v, err})
	}
	return out, nil
}

// own are the counters of this very process.
var own = []counter{
	{Name: "resident memory", Unit: "MB", Count: func(context.Context) (float64, error) { return footprint.Resident() }},
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

// leftovers count what sandboxes can leave on the host: run directories and control groups of
// backends, and the files of the database.
func leftovers(of daemon.Inside) []counter {
	return []counter{
		{Name: "leftovers", Note: "run directories and control groups of sandboxes", Count: func(ctx context.Context) (float64, error) {
			total := 0
			for _, b := range of.Backends {
				ids, err := b.Orphans(ctx)
				if err != nil {
					return 0, err
				}
				total += len(ids)
			}
			return float64(total), nil
		}},
		{Name: "database", Unit: "MB", Note: "rows and events of ended sandboxes are kept", Count: func(context.Context) (float64, error) {
			var total int64
			for _, suffix := range []string{"", "-ahead", "-wal"} {
				fi, err := os.Stat(of.Database + suffix)
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err != nil {
					return 0, err
				}
				total += fi.Size()
			}
			return float64(total) / 1e6, nil
		}},
	}
}
