package bench

import (
	"context"
	"fmt"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
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
func (r *run) creates(ctx context.Context) error {
	const warmUp = 3
	n := max(r.n/4, 1)
	for _, backend := range r.backends {
		ways, notes, err := r.waysOf(ctx, backend)
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
				if err := quiet(ctx, r.Sandboxes); err != nil {
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
		var floor admin.BenchRow
		fill(&floor, native)
		for j, w := range ways {
			row := admin.BenchRow{Name: rowCreate + w.name, Backend: backend, Baseline: rowNativeCapture, Note: notes[j]}
			fill(&row, create[j])
			compare(&row, floor.P50MS)
			r.report(row)
			row.Name, row.Baseline, row.Note = row.Name+ofExec, rowRecorded, "the samples above"
			compare(&row, ms(median(execs)))
			r.report(row)
		}
		r.kill(there)
		if err := r.inARow(ctx, backend); err != nil {
			return err
		}
		row := admin.BenchRow{Name: rowDestroy, Backend: backend, Baseline: rowNativeCapture}
		fill(&row, destroy)
		compare(&row, floor.P50MS)
		r.report(row)
	}
	return nil
}

// inARow claims what the pool holds, one after another without a rest between, as
// on a host that is at work: the rows above find caches cold that waited for the pool.
func (r *run) inARow(ctx context.Context, backend string) error {
	held, err := r.Sandboxes.Pooled(ctx, request(backend))
	if err != nil || held < 2 {
		return err
	}
	var native, create []time.Duration
	for len(create) < max(r.n/4, 1) {
		if err := quiet(ctx, r.Sandboxes); err != nil {
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
	var floor admin.BenchRow
	fill(&floor, native)
	row := admin.BenchRow{Name: rowCreate + "pooled, in a row", Backend: backend, Baseline: rowNativeCapture, Note: fmt.Sprintf("%d after another", held)}
	fill(&row, create)
	compare(&row, floor.P50MS)
	r.report(row)
	return nil
}
