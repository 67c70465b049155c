package measure

import (
	"context"
	"fmt"
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/cmd/hortus-bench/figure"
	"hortus.dev/cmd/hortus-bench/footprint"
)

// Rows of the measurement "idle".
const (
	rowIdle    = "idle memory per sandbox"
	rowCharged = "idle memory per sandbox, charged"
)

// idleCount is how many sandboxes are idle at once.
const idleCount = 20

// idle measures what sandboxes cost that do nothing: the proportional set size
// of all processes that the daemon gained below it, each address space once, per sandbox,
// after each has run a command; beside it what the host charges them for, which counts
// what is shared once, for the first who touched it.
func (r *run) idle(ctx context.Context, backend string) error {
	if err := r.quiet(ctx); err != nil {
		return err
	}
	// What starts with the first sandbox of all, and serves every other one too, is not
	// one sandbox's.
	if err := r.Sandboxes.Planner.Check(ctx, request(backend)); err != nil {
		return err
	}
	before := footprint.Below()
	var ids []api.SandboxID
	for i := range idleCount {
		r.step(backend, i, idleCount)
		id, _, err := r.birth(ctx, cold, backend)
		if err != nil {
			return err
		}
		defer r.kill(id)
		ids = append(ids, id)
	}
	r.step(backend, idleCount, idleCount)
	// What was started gives memory back a moment after its start.
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(idleRest):
	}
	row := figure.Row{Name: rowIdle, Backend: backend, N: idleCount, Unit: "MB"}
	found := slices.DeleteFunc(footprint.Below(), func(pid int) bool { return slices.Contains(before, pid) })
	total, whole := footprint.Of(found)
	if !whole || len(found) < idleCount {
		row.N, row.Unit = 0, ""
		row.Note = "this user may not read the memory maps of the guests"
	} else {
		row.Value = float64(total.All) / idleCount / 1e6
		row.Note = fmt.Sprintf("all %d processes of %d sandboxes, %d address spaces", len(found), idleCount, len(footprint.Spaces(found)))
	}
	r.report(row)
	return r.charged(ctx, backend, ids)
}

// idleRest is longer than any part of a sandbox waits before it gives back what its
// start needed.
const idleRest = 3 * time.Second

// charged reports what the host's own accounts say of the sandboxes.
func (r *run) charged(ctx context.Context, backend string, ids []api.SandboxID) error {
	row := figure.Row{Name: rowCharged, Backend: backend, N: len(ids), Unit: "MB"}
	for _, id := range ids {
		s, err := r.Sandboxes.Sandboxes.Stats(ctx, id)
		if cerr := ctx.Err(); cerr != nil {
			return cerr
		}
		if err != nil {
			r.report(figure.Row{Name: rowCharged, Backend: backend, Note: "not counted: " + err.Error()})
			return nil
		}
		row.Value += float64(s.MemoryBytes) / float64(len(ids)) / 1e6
	}
	if row.Value == 0 {
		row.N, row.Unit, row.Note = 0, "", "this host does not count the memory of a sandbox"
	}
	r.report(row)
	return nil
}
