package bench

import (
	"context"
	"errors"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/bench/restores"
	"hortus.dev/internal/sandbox"
)

// Storage is what the measurement "cache" needs of the daemon's disk.
type Storage struct {
	// Scratch makes an empty directory on the disk of layers, which remove removes.
	Scratch func() (dir string, remove func() error, err error)
	// Fork makes a copy of a workspace, which remove removes.
	Fork func(ctx context.Context, id api.WorkspaceID) (remove func(context.Context) error, err error)
}

// restores measures trees that are mounted instead of extracted.
func (r *run) restores(ctx context.Context) error {
	if r.Storage == nil {
		r.report(admin.BenchRow{Name: "cache", Note: "not measured: there is no storage here"})
		return nil
	}
	return restores.Measure(ctx, restores.Config{
		N: r.n, Backends: r.backends, Trees: r.Trees, Report: r.report, Step: r.step, Fill: fill,
		Scratch: r.Storage.Scratch, Place: r.Place, Fork: r.Storage.Fork,
		Create: birthIn(r), Kill: r.kill, In: r.in,
	})
}

// birthIn creates a cold sandbox with room, and with files at /workspace if there is a
// workspace, and runs its first command.
func birthIn(r *run) func(context.Context, string, *sandbox.Workspace) (api.SandboxID, time.Duration, error) {
	return func(ctx context.Context, backend string, ws *sandbox.Workspace) (api.SandboxID, time.Duration, error) {
		if err := quiet(ctx, r.Sandboxes); err != nil {
			return "", 0, err
		}
		req := r.busy(ctx, backend)
		create := r.Sandboxes.CreateCold
		if ws != nil {
			create = func(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error) {
				return r.Sandboxes.CreateIn(ctx, req, *ws)
			}
		}
		start := time.Now()
		s, err := create(ctx, req)
		if err == nil {
			err = r.recorded(ctx, s.ID)
		}
		took := time.Since(start)
		if err != nil && s.ID != "" {
			err = errors.Join(err, r.destroy(ctx, s.ID))
		}
		return s.ID, took, err
	}
}
