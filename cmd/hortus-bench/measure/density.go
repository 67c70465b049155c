package measure

import (
	"context"
	"fmt"

	"hortus.dev/api"
	"hortus.dev/cmd/hortus-bench/density"
	"hortus.dev/cmd/hortus-bench/figure"
	"hortus.dev/cmd/hortus-bench/program"
)

// measureDensity is taken only if it is named, because it uses most of the host's memory.
const measureDensity = "density"

// Rows of the measurement "density"; how much the parent holds follows.
const (
	rowDensity        = "density, children"
	rowDensityOwn     = "density, own memory"
	rowDensityShared  = "density, shared memory"
	rowDensityMade    = "density, make a child"
	rowDensityCommand = "density, command"
	rowDensityWrite   = "density, write 1 MB"
)

const (
	densityMB    = 100
	densityBatch = 10
	// childMB is what a child may use beside what it has of its parent.
	childMB = 64
)

// densities makes children of one parent until the host is full, or there are as many as samples were
// requested, with shared and with copied memory.
func (r *run) densities(ctx context.Context, backend string) error {
	mb := r.sizes()[0]
	for _, n := range r.sizes() {
		if n <= densityMB {
			mb = max(mb, n)
		}
	}
	shared, err := r.densityOf(ctx, backend, mb, false)
	if err != nil {
		return err
	}
	r.showDensity(backend, withSize("", mb), shared, nil)
	copied, err := r.densityOf(ctx, backend, mb, true)
	if err != nil {
		return err
	}
	r.showDensity(backend, withSize("", mb)+", copied", copied, &shared)
	return nil
}

func (r *run) densityOf(ctx context.Context, backend string, mb int, copied bool) (density.Result, error) {
	if err := r.quiet(ctx); err != nil {
		return density.Result{}, err
	}
	req := roomy(backend, mb)
	req.Limits.MemoryBytes = int64(mb+256) << 20 // memory is to be used up before what may be promised is
	parent, err := r.held(ctx, req, mb, "asked")
	if err != nil {
		return density.Result{}, err
	}
	defer r.kill(parent)
	each := childMB
	if copied {
		each += mb
	}
	return density.Fill(ctx, density.Config{
		Forker: r.Sandboxes.Forker, Sandboxes: r.Sandboxes.Sandboxes, Parent: parent, Most: r.N, Batch: densityBatch,
		Fork: api.ForkSandbox{CopyMemory: copied, TTLMS: lifetime.Milliseconds()},
		// Copied memory of the batch before may not be there yet.
		Room:    func(count int) string { return fits(2 * count * each) },
		Command: r.recorded,
		Write: func(ctx context.Context, id api.SandboxID) error {
			_, err := r.in(ctx, id, []string{"sh", "-c", "echo >/tmp/ask; cat /tmp/answer"})
			return err
		},
		Step: func(done int) { r.step(backend, done, r.N) },
	})
}

// showDensity reports the rows of a density; shared is that with shared memory for one without.
func (r *run) showDensity(backend, suffix string, d density.Result, shared *density.Result) {
	why := d.Why
	if why == "" {
		why = "as many as were requested"
	}
	note := fmt.Sprintf("of a child; of all together %.0f MB of their own", float64(d.Together.OwnBytes)/1e6)
	if d.Unknown {
		note = "not all children could be measured"
	}
	r.report(figure.Row{Name: rowDensity + suffix, Backend: backend, N: d.Children, Value: float64(d.Children), Unit: "children", Note: program.Clip(why, 200)})
	r.report(figure.Row{Name: rowDensityOwn + suffix, Backend: backend, N: d.Children, Value: d.Own / 1e6, Unit: "MB", Note: note})
	r.report(figure.Row{Name: rowDensityShared + suffix, Backend: backend, N: d.Children, Value: d.Shared / 1e6, Unit: "MB", Note: "of a child"})
	times := func(name string, of func(density.Result) density.Acts) {
		a := of(d)
		row := figure.Row{Name: name + suffix, Backend: backend}
		if a.Failed > 0 {
			row.Note = fmt.Sprintf("%d failed: %s", a.Failed, program.Clip(a.First.Error(), 200))
		}
		base := 0.0
		if shared != nil {
			row.Baseline, base = name+suffix[:len(suffix)-len(", copied")], figure.Median(of(*shared).Times)
		}
		r.times(row, a.Times, base)
	}
	times(rowDensityMade, func(d density.Result) density.Acts {
		return density.Acts{Times: d.Made}
	})
	times(rowDensityCommand, func(d density.Result) density.Acts { return d.Commands })
	times(rowDensityWrite, func(d density.Result) density.Acts { return d.Write })
}
