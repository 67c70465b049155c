package measure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/cmd/hortus-bench/figure"
)

// Rows of the measurement "create"; the way follows the name.
const (
	rowCreate  = "create to first exec, "
	rowDestroy = "destroy"
)

// ofExec ends the names of those that are compared with a command in a sandbox that
// is there.
const ofExec = ", of an exec"

// creates measures from the call of Create to the end of a first command. A
// sample's destruction is measured apart; a native run between samples is the
// floor of the same moment, and so is a command in a sandbox that stays.
func (r *run) creates(ctx context.Context, backend string) error {
	const warmUp = 3
	n := max(r.N/4, 1)
	ways, err := r.waysOf(ctx, backend)
	if err != nil {
		return err
	}
	there, _, err := r.birth(ctx, cold, backend)
	if err != nil {
		return err
	}
	defer r.kill(there)
	var native, execs, destroy []time.Duration
	create := make([][]time.Duration, len(ways))
	for i := range n + warmUp {
		r.step(backend, i, n+warmUp)
		for j, w := range ways {
			if err := r.quiet(ctx); err != nil {
				return err
			}
			start := time.Now()
			if err := nativeCapture(); err != nil {
				return err
			}
			floor := time.Since(start)
			start = time.Now()
			if err := r.recorded(ctx, there); err != nil {
				return err
			}
			one := time.Since(start)
			id, first, err := r.birth(ctx, w, backend)
			if err != nil {
				return err
			}
			start = time.Now()
			if err := r.destroy(ctx, id); err != nil {
				return err
			}
			if i >= warmUp {
				native, execs = append(native, floor), append(execs, one)
				create[j] = append(create[j], first)
				destroy = append(destroy, time.Since(start))
			}
		}
	}
	r.step(backend, n+warmUp, n+warmUp)
	floor := figure.Median(native)
	for j, w := range ways {
		row := figure.Row{Name: rowCreate + w.name, Backend: backend, Baseline: rowNativeCapture, Note: w.note}
		r.times(row, create[j], floor)
		row.Name, row.Baseline, row.Note = row.Name+ofExec, rowRecorded, "the samples above"
		r.times(row, create[j], figure.Median(execs))
	}
	r.kill(there)
	if err := r.inARow(ctx, backend); err != nil {
		return err
	}
	r.times(figure.Row{Name: rowDestroy, Backend: backend, Baseline: rowNativeCapture}, destroy, floor)
	return nil
}

// inARow claims what the pool holds, one after another without a rest between, as
// on a host that is at work: the rows above find caches cold that waited for the pool.
func (r *run) inARow(ctx context.Context, backend string) error {
	held, err := r.Sandboxes.Creator.Pooled(ctx, request(backend))
	if err != nil || held < 2 {
		return err
	}
	var native, create []time.Duration
	for len(create) < max(r.N/4, 1) {
		if err := r.quiet(ctx); err != nil {
			return err
		}
		var ids []api.SandboxID
		for range held {
			start := time.Now()
			if err := nativeCapture(); err != nil {
				return err
			}
			native = append(native, time.Since(start))
			id, first, err := r.birth(ctx, pooled, backend)
			if err != nil {
				return err
			}
			ids, create = append(ids, id), append(create, first)
		}
		for _, id := range ids {
			if err := r.destroy(ctx, id); err != nil {
				return err
			}
		}
	}
	row := figure.Row{Name: rowCreate + "pooled, in a row", Backend: backend, Baseline: rowNativeCapture, Note: fmt.Sprintf("%d after another", held)}
	r.times(row, create, figure.Median(native))
	return nil
}

// maxBurst is how many sandboxes are requested at once at most.
const maxBurst = 100

// bursts measures many creates at once. A burst's clock begins before its first
// call of Create and ends with the end of the last of the first commands; each
// create's clock is that of "create to first exec". Between bursts one is
// created alone, which is what both are compared with.
func (r *run) bursts(ctx context.Context, backend string, w way) error {
	size, rounds := min(max(r.N/2, 2), maxBurst), min(max(r.N/40, 1), 10)
	var alone, all, each []time.Duration
	for i := range rounds {
		r.step(backend, i, rounds)
		first, err := r.alone(ctx, w, backend)
		if err != nil {
			return err
		}
		if err := r.quiet(ctx); err != nil {
			return err
		}
		whole, firsts, err := r.burst(ctx, w, backend, size)
		if err != nil {
			return err
		}
		alone, all, each = append(alone, first), append(all, whole), append(each, firsts...)
	}
	r.step(backend, rounds, rounds)
	row := figure.Row{Name: fmt.Sprintf("burst of %d, until all ran, %s", size, w.name), Backend: backend, Baseline: rowCreate + w.name, Note: w.note}
	r.times(row, all, figure.Median(alone))
	row.Name = fmt.Sprintf("burst of %d, each, %s", size, w.name)
	r.times(row, each, figure.Median(alone))
	return nil
}

// burst creates sandboxes at once, each of which runs a command, and destroys
// them when all have.
func (b *Bench) burst(ctx context.Context, w way, backend string, size int) (whole time.Duration, each []time.Duration, err error) {
	ids, errs := make([]api.SandboxID, size), make([]error, size)
	each = make([]time.Duration, size)
	var births, deaths sync.WaitGroup
	start := time.Now()
	for i := range size {
		births.Go(func() { ids[i], each[i], errs[i] = b.birth(ctx, w, backend) })
	}
	births.Wait()
	whole = time.Since(start)
	for i, id := range ids {
		if id != "" {
			deaths.Go(func() { errs[i] = b.destroy(ctx, id) })
		}
	}
	deaths.Wait()
	return whole, each, errors.Join(errs...)
}
