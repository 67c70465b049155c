package restores

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hortus.dev/cmd/hortus-bench/figure"
	"hortus.dev/cmd/hortus-bench/modules"
)

// run is one call of Measure.
type run struct {
	Config
	dir string
}

// Measure restores each tree on the host, and then in sandboxes.
func Measure(ctx context.Context, cfg Config) (err error) {
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
				r.Report(figure.Missing(t.name("create to first exec", "attached"), backend, err.Error()))
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

// report reports a series, and how many times as long as the baseline it took.
func (r *run) report(name, backend string, s series, baseline string, base series, note string) {
	if len(s) == 0 {
		return
	}
	out := figure.Row{Name: name, Backend: backend, Note: note}
	if len(base) > 0 {
		out.Baseline = baseline
	}
	out.Times(s, figure.Median(base))
	r.Report(out)
}
