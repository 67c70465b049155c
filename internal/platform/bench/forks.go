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

// Rows of the measurement "fork"; how much is held and how many children there are
// follows.
const (
	rowFork      = "fork to first exec"
	rowForkAll   = "fork until all ran"
	rowForkStill = "fork, parent paused"
)

// families are the numbers of children; of what is large only as many as a machine
// may have room for.
func families(mb int) []int {
	if mb > 100 {
		return []int{1, 5}
	}
	return []int{1, 5, 20}
}

// forks measures from the call of Fork to the end of a first command in each child.
// A create, which it is compared with, comes before each.
func (r *run) forks(ctx context.Context) error {
	for _, backend := range r.savers(ctx, rowFork) {
		for _, mb := range r.sizes() {
			if err := r.forksOf(ctx, backend, mb); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) forksOf(ctx context.Context, backend string, mb int) error {
	var id api.SandboxID
	for _, count := range families(mb) {
		if why := fits((2 + count) * mb); why != "" { // the parent, the image, the children
			r.report(admin.BenchRow{Name: family(rowFork, mb, count), Backend: backend, Note: why})
			continue
		}
		if id == "" {
			var err error
			if id, err = r.held(ctx, backend, mb); err != nil {
				return err
			}
			defer r.kill(id)
		}
		if err := r.family(ctx, backend, id, mb, count); err != nil {
			return err
		}
	}
	return nil
}

func family(name string, mb, count int) string {
	if count == 1 {
		return fmt.Sprintf("%s, %d MB, 1 child", name, mb)
	}
	return fmt.Sprintf("%s, %d MB, %d children", name, mb, count)
}

// family forks a sandbox into so many children, again and again.
func (r *run) family(ctx context.Context, backend string, id api.SandboxID, mb, count int) error {
	n := r.rounds(mb)
	if count > 5 {
		n = max(n/5, 1)
	}
	var create, each, all, still []time.Duration
	for i := range n {
		r.step(backend, i, n)
		first, err := r.alone(ctx, cold, backend)
		if err != nil {
			return err
		}
		f, err := r.fork(ctx, id, count)
		if err != nil {
			return err
		}
		create, each = append(create, first), append(each, f.each...)
		all, still = append(all, f.all), append(still, f.still)
	}
	r.step(backend, n, n)
	rows := []struct {
		name  string
		times []time.Duration
	}{{rowFork, each}, {rowForkStill, still}}
	if count > 1 {
		rows = append(rows, struct {
			name  string
			times []time.Duration
		}{rowForkAll, all})
	}
	for _, f := range rows {
		row := admin.BenchRow{Name: family(f.name, mb, count), Backend: backend}
		if f.name != rowForkStill {
			row.Baseline = rowCreate + cold.name
		}
		fill(&row, f.times)
		compare(&row, ms(median(create)))
		r.report(row)
	}
	return nil
}

// forked are the times of one fork.
type forked struct {
	// each is from the call to the end of a child's first command, all to that of
	// the last; still is how long the parent was paused.
	each       []time.Duration
	all, still time.Duration
}

// fork forks a sandbox, runs a command in each child at once, and destroys them.
func (b *Bench) fork(ctx context.Context, id api.SandboxID, count int) (f forked, err error) {
	start := time.Now()
	result, err := b.Sandboxes.Fork(ctx, id, api.ForkSandbox{Count: count, TTLMS: lifetime.Milliseconds()})
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
	for i, c := range result.Children {
		if c.Sandbox != nil {
			deaths.Go(func() { errs[count+i] = b.destroy(ctx, c.Sandbox.ID) })
		}
	}
	deaths.Wait()
	return f, errors.Join(errs...)
}
