package restores

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"hortus.dev/api/admin"
	"hortus.dev/internal/bench/modules"
)

// run is one call of Measure.
type run struct {
	Config
	dir string
}

// Measure restores each tree on the host, and then in sandboxes.
func Measure(ctx context.Context, cfg Config) (err error) {
	if len(cfg.Trees) == 0 {
		cfg.Trees = trees()
	}
	r := &run{Config: cfg}
	dir, remove, err := r.Scratch()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	r.dir = dir
	for _, t := range r.Trees {
		h, err := r.host(ctx, t)
		if err != nil {
			return err
		}
		for _, backend := range r.Backends {
			if err := r.sandboxes(ctx, t, backend, h); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				r.Report(admin.BenchRow{Name: t.name("create to first exec", "attached"), Backend: backend, Note: "not measured: " + err.Error()})
			}
		}
	}
	return nil
}

// write writes a tree.
func (t Tree) write(ctx context.Context, dir string) (modules.Info, error) {
	return modules.Write(ctx, dir, t.Files)
}

// size describes a tree in a note.
func size(i modules.Info) string {
	return fmt.Sprintf("%d files, %d MB", i.Files, i.Bytes/1e6)
}

// series are the times of one thing.
type series []time.Duration

// take adds how long f takes.
func (s *series) take(f func() error) error {
	start := time.Now()
	err := f()
	*s = append(*s, time.Since(start))
	return err
}

// ms is the median in milliseconds.
func (s series) ms() float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return float64(sorted[(len(sorted)-1)/2].Microseconds()) / 1000
}

// report reports a series, and how many times as long as the baseline it took.
func (r *run) report(name, backend string, s series, baseline string, base series, note string) {
	if len(s) == 0 {
		return
	}
	out := admin.BenchRow{Name: name, Backend: backend, Note: note}
	r.Fill(&out, slices.Clone(s))
	if b := base.ms(); b > 0 {
		out.Baseline, out.BaselineP50MS = baseline, b
		out.Ratio = math.Round(out.P50MS/b*1000) / 1000
	}
	r.Report(out)
}
