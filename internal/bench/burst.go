package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

// maxBurst is how many sandboxes are requested at once at most.
const maxBurst = 100

// bursts measures many creates at once. A burst's clock begins before its first
// call of Create and ends with the end of the last of the first commands; each
// create's clock is that of "create to first exec". Between bursts one is
// created alone, which is what both are compared with.
func (r *run) bursts(ctx context.Context) error {
	size, rounds := min(max(r.n/2, 2), maxBurst), min(max(r.n/40, 1), 10)
	for _, backend := range r.backends {
		ways, notes, err := r.waysOf(ctx, backend)
		if err != nil {
			return err
		}
		for j, w := range ways {
			var alone, all, each []time.Duration
			for i := range rounds {
				r.step(backend, i, rounds)
				first, err := r.alone(ctx, w, backend)
				if err != nil {
					return err
				}
				if err := quiet(ctx, r.Sandboxes); err != nil {
					return err
				}
				whole, firsts, err := r.burst(ctx, w, backend, size)
				if err != nil {
					return err
				}
				alone, all, each = append(alone, first), append(all, whole), append(each, firsts...)
			}
			r.step(backend, rounds, rounds)
			base := ms(median(alone))
			for _, row := range []struct {
				name  string
				times []time.Duration
			}{
				{fmt.Sprintf("burst of %d, until all ran, ", size), all},
				{fmt.Sprintf("burst of %d, each, ", size), each},
			} {
				out := admin.BenchRow{Name: row.name + w.name, Backend: backend, Baseline: rowCreate + w.name, Note: notes[j]}
				fill(&out, row.times)
				compare(&out, base)
				r.report(out)
			}
		}
	}
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
