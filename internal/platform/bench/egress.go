package bench

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/platform/bench/outgoing"
)

// outgoing measures connections that leave sandboxes.
func (r *run) outgoing(ctx context.Context) error {
	return outgoing.Measure(ctx, outgoing.Config{
		N: r.n, Backends: r.backends, Report: r.report, Step: r.step, Fill: fill, Resident: resident, Sandboxes: r.Sandboxes,
		Create: func(ctx context.Context, backend string, cpus float64) (api.SandboxID, error) {
			req := r.busy(ctx, backend)
			if req.Limits.CPUs > 0 {
				req.Limits.CPUs = cpus
			}
			s, err := cold.create(ctx, r.Sandboxes, req)
			return s.ID, err
		},
		Kill: r.kill, In: r.in, CPU: r.cpuOf, Divert: r.Divert,
		Talk: func(ctx context.Context, id api.SandboxID, argv []string) (outgoing.Talk, error) {
			t, err := r.talkTo(ctx, id, argv)
			if err != nil {
				return outgoing.Talk{}, err
			}
			return outgoing.Talk{Ask: t.ask, Close: t.close}, nil
		},
	})
}
