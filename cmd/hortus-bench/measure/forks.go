package measure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/cmd/hortus-bench/figure"
	"hortus.dev/cmd/hortus-bench/footprint"
)

// Rows of the measurement "fork"; how much is held and how many children there are
// follows.
const (
	rowFork       = "fork to first exec"
	rowForkAll    = "fork until all ran"
	rowForkStill  = "fork, parent paused"
	rowForkCopied = "fork to first exec, copied"
	rowForkIdle   = "memory of idle children"
	rowForkWrote  = "memory of idle children, programs"
)

// forks measures from the call of Fork to the end of a first command in each child.
// A create, which it is compared with, comes before each.
func (r *run) forks(ctx context.Context, backend string) error {
	for _, mb := range r.sizes() {
		if err := r.forksOf(ctx, backend, mb); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) forksOf(ctx context.Context, backend string, mb int) error {
	var id api.SandboxID
	for _, count := range r.families(mb) {
		if why := fits(mb + 50*count); why != "" { // the parent, and what children do not share with it
			r.report(figure.Row{Name: family(rowFork, mb, count), Backend: backend, Note: why})
			continue
		}
		if id == "" {
			var err error
			if id, err = r.held(ctx, roomy(backend, mb), mb); err != nil {
				return err
			}
			defer r.kill(id)
		}
		median, err := r.family(ctx, backend, id, mb, count)
		if err == nil {
			err = r.sharing(ctx, backend, id, mb, count, median)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sharing measures what sharing saves: the same fork with copied memory, compared with median, and
// the memory of children that do nothing.
func (r *run) sharing(ctx context.Context, backend string, id api.SandboxID, mb, count int, median float64) error {
	row := figure.Row{Name: family(rowForkCopied, mb, count), Backend: backend, Baseline: family(rowFork, mb, count)}
	if why := fits(count * (mb + 20)); why != "" {
		row.Baseline, row.Note = "", why
		r.report(row)
	} else {
		var each []time.Duration
		for range max(r.rounds(mb)/5, 1) {
			f, err := r.fork(ctx, id, api.ForkSandbox{Count: count, CopyMemory: true}, nil)
			if err != nil {
				return err
			}
			each = append(each, f.each...)
		}
		r.times(row, each, median)
	}
	if err := r.quiet(ctx); err != nil { // the pool is full, as it is after the fork
		return err
	}
	was, _ := footprint.Of(footprint.Below())
	now, whole := footprint.Memory{}, false
	_, err := r.fork(ctx, id, api.ForkSandbox{Count: count}, func() error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(idleRest):
		}
		now, whole = footprint.Of(footprint.Below())
		return nil
	})
	for _, part := range []struct {
		name, note string
		bytes      int64
	}{
		{rowForkIdle, "of all children, what they added to the parent", now.All - was.All},
		{rowForkWrote, "the part of it that their programs wrote or loaded", now.Files - was.Files},
	} {
		value := float64(part.bytes) / 1e6
		row := figure.Row{Name: family(part.name, mb, count), Backend: backend, N: count, Unit: "MB", Value: value}
		row.Note = fmt.Sprintf("%s; %.1f MB each, in all %.1f%% of one's %d MB", part.note, value/float64(count), 100*float64(part.bytes)/float64(mb<<20), mb)
		if !whole {
			row = figure.Row{Name: row.Name, Backend: backend, Note: "this user may not read the memory maps of the guests"}
		}
		if err == nil {
			r.report(row)
		}
	}
	return err
}

func family(name string, mb, count int) string {
	if count == 1 {
		return fmt.Sprintf("%s, %d MB, 1 child", name, mb)
	}
	return fmt.Sprintf("%s, %d MB, %d children", name, mb, count)
}

// family forks a sandbox into so many children, again and again. It returns the median time to the first
// exec, in milliseconds.
func (r *run) family(ctx context.Context, backend string, id api.SandboxID, mb, count int) (float64, error) {
	n := r.rounds(mb)
	if count > 5 {
		n = max(n/3, 1)
	}
	var create, each, all, still []time.Duration
	for i := range n {
		r.step(backend, i, n)
		first, err := r.alone(ctx, cold, backend)
		if err != nil {
			return 0, err
		}
		f, err := r.fork(ctx, id, api.ForkSandbox{Count: count}, nil)
		if err != nil {
			return 0, err
		}
		create, each = append(create, first), append(each, f.each...)
		all, still = append(all, f.all), append(still, f.still)
	}
	r.step(backend, n, n)
	base := figure.Median(create)
	row := func(name, baseline string) figure.Row {
		return figure.Row{Name: family(name, mb, count), Backend: backend, Baseline: baseline}
	}
	r.times(row(rowFork, rowCreate+cold.name), each, base)
	r.times(row(rowForkStill, ""), still, 0)
	if count > 1 {
		r.times(row(rowForkAll, rowCreate+cold.name), all, base)
	}
	return figure.Median(each), nil
}

// forkTimes are the times of one fork.
type forkTimes struct {
	// each is from the call to the end of a child's first command, all to that of
	// the last; still is how long the parent was paused.
	each       []time.Duration
	all, still time.Duration
}

// fork forks a sandbox, runs a command in each child at once, calls idle if it is not nil, and
// destroys them.
func (b *Bench) fork(ctx context.Context, id api.SandboxID, req api.ForkSandbox, idle func() error) (f forkTimes, err error) {
	count := req.Count
	req.TTLMS = lifetime.Milliseconds()
	if err := b.quiet(ctx); err != nil {
		return f, err
	}
	start := time.Now()
	result, err := b.Sandboxes.Forker.Fork(ctx, id, req)
	if err != nil {
		return f, err
	}
	f.each, f.still = make([]time.Duration, count), time.Duration(result.PausedMS)*time.Millisecond
	errs := make([]error, 2*count)
	var runs, deaths sync.WaitGroup
	for i, c := range result.Children {
		if c.Sandbox == nil {
			errs[i] = c.Error
			continue
		}
		runs.Go(func() {
			errs[i] = b.recorded(ctx, c.Sandbox.ID)
			f.each[i] = time.Since(start)
		})
	}
	runs.Wait()
	f.all = time.Since(start)
	if idle != nil {
		errs = append(errs, idle())
	}
	for i, c := range result.Children {
		if c.Sandbox != nil {
			deaths.Go(func() { errs[count+i] = b.destroy(ctx, c.Sandbox.ID) })
		}
	}
	deaths.Wait()
	return f, errors.Join(errs...)
}
