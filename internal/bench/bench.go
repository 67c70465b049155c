package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox"
)

// Rows' names; docs/performance.md explains each clock.
const (
	rowNativeRun     = "native fork+exec"
	rowNativeCapture = "native fork+exec, output captured"
	rowGuest         = "exec round trip, guest wire"
	rowRecorded      = "exec round trip, recorded"
	rowCreate        = "create to first exec, cold"
	rowDestroy       = "destroy"
	rowIdle          = "idle memory per sandbox"
)

// command is what every round trip runs: the least that a program can do.
const command = "/bin/true"

// Bench measures.
type Bench struct {
	// Sandboxes is the manager under measurement.
	Sandboxes *sandbox.Manager
}

// Run takes n samples of each row for each backend, and reports a row when it is
// complete. Backends that cannot start here are left out, unless they were named.
func (b *Bench) Run(ctx context.Context, req api.BenchRequest, report func(api.BenchRow)) error {
	n := req.N
	switch {
	case n == 0:
		n = 200
	case n < 0 || n > 100_000:
		return api.Errorf(api.KindInvalid, "%d samples; the number must be between 1 and 100000", n)
	}
	backends, err := b.backends(ctx, req.Backends)
	if err != nil {
		return err
	}
	if err := b.roundTrips(ctx, backends, n, report); err != nil {
		return err
	}
	for _, name := range backends {
		if err := b.creates(ctx, name, max(n/4, 1), report); err != nil {
			return err
		}
		if err := b.idle(ctx, name, report); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bench) backends(ctx context.Context, named []string) ([]string, error) {
	if len(named) > 0 {
		for _, name := range named {
			if _, _, _, err := b.Sandboxes.Choose(ctx, name); err != nil {
				return nil, err
			}
		}
		return named, nil
	}
	var all []string
	for _, r := range b.Sandboxes.Reports(ctx) {
		if _, ok := r.Has(api.CapStart); ok {
			all = append(all, r.Backend)
		}
	}
	return all, nil
}

// roundTrips takes the samples of all rows in turn.
func (b *Bench) roundTrips(ctx context.Context, backends []string, n int, report func(api.BenchRow)) error {
	type series struct {
		row    api.BenchRow
		sample func() error
		times  []time.Duration
	}
	all := []*series{
		{row: api.BenchRow{Name: rowNativeRun}, sample: nativeRun},
		{row: api.BenchRow{Name: rowNativeCapture, Baseline: rowNativeRun}, sample: nativeCapture},
	}
	for _, name := range backends {
		s, err := b.Sandboxes.Create(ctx, api.CreateSandbox{Isolation: name})
		if err != nil {
			return err
		}
		defer b.kill(s.ID)
		guest, err := b.Sandboxes.Client(ctx, s.ID)
		if err != nil {
			return err
		}
		all = append(all,
			&series{row: api.BenchRow{Name: rowGuest, Backend: name, Baseline: rowNativeCapture}, sample: func() error { return overGuest(ctx, guest) }},
			&series{row: api.BenchRow{Name: rowRecorded, Backend: name, Baseline: rowNativeCapture}, sample: func() error { return b.recorded(ctx, s.ID) }})
	}
	const warmUp = 10
	for i := range n + warmUp {
		for _, s := range all {
			if err := ctx.Err(); err != nil {
				return err
			}
			start := time.Now()
			if err := s.sample(); err != nil {
				return err
			}
			if d := time.Since(start); i >= warmUp {
				s.times = append(s.times, d)
			}
		}
	}
	base := map[string]float64{}
	for _, s := range all {
		fill(&s.row, s.times)
		if s.row.Backend == "" {
			base[s.row.Name] = s.row.P50MS
		}
		compare(&s.row, base[s.row.Baseline])
		report(s.row)
	}
	return nil
}

// creates measures from the call of Create to the end of a first command. A
// sample's destruction is measured apart; a native run between samples is the
// floor of the same moment.
func (b *Bench) creates(ctx context.Context, backend string, n int, report func(api.BenchRow)) error {
	var create, destroy, native []time.Duration
	const warmUp = 3
	for i := range n + warmUp {
		start := time.Now()
		if err := nativeCapture(); err != nil {
			return err
		}
		floor := time.Since(start)

		start = time.Now()
		s, err := b.Sandboxes.CreateCold(ctx, api.CreateSandbox{Isolation: backend})
		if err != nil {
			return err
		}
		err = b.recorded(ctx, s.ID)
		first := time.Since(start)

		start = time.Now()
		_, _, killErr := b.Sandboxes.Kill(context.WithoutCancel(ctx), s.ID)
		if err := errors.Join(err, killErr); err != nil {
			return err
		}
		if i >= warmUp {
			native = append(native, floor)
			create = append(create, first)
			destroy = append(destroy, time.Since(start))
		}
	}
	var floor api.BenchRow
	fill(&floor, native)
	for _, r := range []struct {
		name  string
		times []time.Duration
	}{{rowCreate, create}, {rowDestroy, destroy}} {
		row := api.BenchRow{Name: r.name, Backend: backend, Baseline: rowNativeCapture}
		fill(&row, r.times)
		compare(&row, floor.P50MS)
		report(row)
	}
	return nil
}

func (b *Bench) kill(id api.SandboxID) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, _, _ = b.Sandboxes.Kill(ctx, id) // its deadline is the second chance
}

func nativeRun() error { return exec.Command(command).Run() }

func nativeCapture() error {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(command)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	return cmd.Run()
}

// overGuest runs a command over the guest's wire, with nothing recorded.
func overGuest(ctx context.Context, guest *envd.Client) error {
	no := false
	ps, err := guest.Start(ctx, &envd.StartRequest{Process: &envd.ProcessConfig{Cmd: command}, Stdin: &no}, envd.StartOptions{})
	if err != nil {
		return err
	}
	defer ps.Close()
	for {
		ev, err := ps.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if ev.End != nil && ev.End.ExitCode != 0 {
			return api.Errorf(api.KindInternal, "%s ended with %d", command, ev.End.ExitCode)
		}
	}
}

// recorded runs a command as every user's command is run.
func (b *Bench) recorded(ctx context.Context, id api.SandboxID) error {
	s, err := b.Sandboxes.StartExec(ctx, id, api.ExecRequest{Args: []string{command}})
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		if _, err := s.Next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
	}
	if x := s.Exec(); x.State != api.ExecExited || x.Exit.Code != 0 {
		return api.Errorf(api.KindInternal, "%s ended as %+v", command, x.Exit)
	}
	return nil
}

func fill(row *api.BenchRow, times []time.Duration) {
	slices.Sort(times)
	row.N = len(times)
	row.P50MS, row.P99MS = ms(quantile(times, 0.50)), ms(quantile(times, 0.99))
}

func compare(row *api.BenchRow, base float64) {
	if row.Baseline != "" && base > 0 {
		row.BaselineP50MS = base
		row.Ratio = float64(int(row.P50MS/base*1000+0.5)) / 1000
	}
}

// quantile gives the q-th value of sorted times.
func quantile(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	return times[min(int(q*float64(len(times))), len(times)-1)]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
