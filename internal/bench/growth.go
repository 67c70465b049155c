package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"hortus.dev/api/admin"
)

// Rows of the measurement "growth"; the way or what was counted follows.
const (
	rowWhole  = "create, run, destroy, "
	rowGrowth = "growth, "
)

// per is the number of sandboxes that a growth is told for.
const per = 1000

// growth takes sandboxes through their whole life, one after another, and counts
// what the daemon holds before and after.
func (r *run) growth(ctx context.Context) error {
	for _, backend := range r.backends {
		ways, notes, err := r.waysOf(ctx, backend)
		if err != nil {
			return err
		}
		for i, w := range ways {
			if err := r.growthOf(ctx, backend, w, notes[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) growthOf(ctx context.Context, backend string, w way, note string) error {
	// What is made once and kept (caches, pages of the database) is made before
	// the first count.
	n, warmUp := 5*r.n, min(r.n/4+1, 50)
	for range warmUp {
		if _, err := r.alone(ctx, w, backend); err != nil {
			return err
		}
	}
	before, err := r.settled(ctx, nil)
	if err != nil {
		return err
	}
	middle := before
	times := make([]time.Duration, 0, n)
	for i := range n {
		r.step(backend, i, n)
		if i == n/2 {
			if middle, err = r.settled(ctx, before); err != nil {
				return err
			}
		}
		if err := quiet(ctx, r.Sandboxes); err != nil {
			return err
		}
		start := time.Now()
		if err := r.whole(ctx, w, backend); err != nil {
			return err
		}
		times = append(times, time.Since(start))
	}
	r.step(backend, n, n)
	after, err := r.settled(ctx, before)
	if err != nil {
		return err
	}

	tenth := max(n/10, 1)
	row := admin.BenchRow{Name: rowWhole + w.name, Backend: backend}
	row.Note = fmt.Sprintf("p50 of the first %d: %.2f ms, of the last %d: %.2f ms",
		tenth, ms(median(times[:tenth])), tenth, ms(median(times[n-tenth:])))
	if note != "" {
		row.Note = note + "; " + row.Note
	}
	fill(&row, times)
	r.report(row)
	for i, c := range before {
		if err := errors.Join(c.err, after[i].err); err != nil {
			r.report(admin.BenchRow{Name: rowGrowth + c.Name + ", " + w.name, Backend: backend, Note: "not counted: " + err.Error()})
			continue
		}
		row := admin.BenchRow{Name: rowGrowth + c.Name + ", " + w.name, Backend: backend, N: n, Unit: strings.TrimSpace(fmt.Sprintf("%s per %d", c.Unit, per)),
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

// count is what a Counter gave.
type count struct {
	Counter
	value float64
	err   error
}

// settled counts everything. Given an earlier count it waits a while for what
// ends a moment after the last sandbox did: goroutines and connections that were
// told to, processes that are being reaped.
func (b *Bench) settled(ctx context.Context, before []count) ([]count, error) {
	if err := quiet(ctx, b.Sandboxes); err != nil {
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
	for _, c := range append(slices.Clone(own), b.Counters...) {
		v, err := c.Count(ctx)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		out = append(out, count{c, v, err})
	}
	return out, nil
}
