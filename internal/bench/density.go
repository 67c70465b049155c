package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/bench/density"
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

// densityHolder holds memory as holder does, and writes a MB of it again when it is asked to.
const densityHolder = `
import os, sys
size = int(sys.argv[1]) << 20
held = memoryview(bytearray(size))
for at in range(0, size, 1 << 20):
    held[at:at + (1 << 20)] = os.urandom(1 << 20)
os.mkfifo("/tmp/ask"); os.mkfifo("/tmp/answer")
print("held", flush=True)
while True:
    for line in open("/tmp/ask"):
        held[:1 << 20] = os.urandom(1 << 20)
        with open("/tmp/answer", "w") as f: f.write("written")
`

// densities makes children of one parent until the host is full, or there are as many as samples were
// requested, with shared and with copied memory.
func densities(r *run, ctx context.Context) error {
	mb := r.sizes()[0]
	for _, n := range r.sizes() {
		if n <= densityMB {
			mb = max(mb, n)
		}
	}
	for _, backend := range r.savers(ctx, rowDensity) {
		shared, err := densityOf(ctx, r, backend, mb, false)
		if err == nil {
			showDensity(r, backend, withSize("", mb), shared, nil)
			var copied density.Result
			copied, err = densityOf(ctx, r, backend, mb, true)
			if err == nil {
				showDensity(r, backend, withSize("", mb)+", copied", copied, &shared)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func densityOf(ctx context.Context, r *run, backend string, mb int, copied bool) (density.Result, error) {
	if err := quiet(ctx, r.Sandboxes); err != nil {
		return density.Result{}, err
	}
	req := roomy(backend, mb)
	req.Limits.MemoryBytes = int64(mb+256) << 20 // memory is to be used up before what may be promised is
	parent, err := cold.create(ctx, r.Sandboxes, req)
	if err != nil {
		return density.Result{}, err
	}
	defer r.kill(parent.ID)
	if _, _, err := r.until(ctx, parent.ID, python(densityHolder, strconv.Itoa(mb)), "held"); err != nil {
		return density.Result{}, err
	}
	each := childMB
	if copied {
		each += mb
	}
	return density.Fill(ctx, density.Config{
		Sandboxes: r.Sandboxes, Parent: parent.ID, Most: r.n, Batch: densityBatch,
		Fork: api.ForkSandbox{CopyMemory: copied, TTLMS: lifetime.Milliseconds()},
		// Copied memory of the batch before may not be there yet.
		Room:    func(count int) string { return fits(2 * count * each) },
		Command: r.recorded,
		Write: func(ctx context.Context, id api.SandboxID) error {
			_, err := r.in(ctx, id, []string{"sh", "-c", "echo >/tmp/ask; cat /tmp/answer"})
			return err
		},
		Step: func(done int) { r.step(backend, done, r.n) },
	})
}

// showDensity reports the rows of a density; shared is that with shared memory for one without.
func showDensity(r *run, backend, suffix string, d density.Result, shared *density.Result) {
	why := d.Why
	if why == "" {
		why = "as many as were requested"
	}
	note := fmt.Sprintf("of a child; of all together %.0f MB of their own", float64(d.Together.OwnBytes)/1e6)
	if d.Unknown {
		note = "not all children could be measured"
	}
	r.report(admin.BenchRow{Name: rowDensity + suffix, Backend: backend, N: d.Children, Value: float64(d.Children), Unit: "children", Note: clip(why, 200)})
	r.report(admin.BenchRow{Name: rowDensityOwn + suffix, Backend: backend, N: d.Children, Value: d.Own / 1e6, Unit: "MB", Note: note})
	r.report(admin.BenchRow{Name: rowDensityShared + suffix, Backend: backend, N: d.Children, Value: d.Shared / 1e6, Unit: "MB", Note: "of a child"})
	times := func(name string, of func(density.Result) density.Acts) {
		a := of(d)
		row := admin.BenchRow{Name: name + suffix, Backend: backend}
		if a.Failed > 0 {
			row.Note = fmt.Sprintf("%d failed: %s", a.Failed, clip(a.First.Error(), 200))
		}
		fill(&row, a.Times)
		if shared != nil {
			base := of(*shared).Times
			row.Baseline = name + suffix[:len(suffix)-len(", copied")]
			compare(&row, ms(median(base)))
		}
		r.report(row)
	}
	times(rowDensityMade, func(d density.Result) density.Acts {
		return density.Acts{Times: append([]time.Duration(nil), d.Made...)}
	})
	times(rowDensityCommand, func(d density.Result) density.Acts { return d.Commands })
	times(rowDensityWrite, func(d density.Result) density.Acts { return d.Write })
}
