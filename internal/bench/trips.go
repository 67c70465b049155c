package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/api/envd"
)

// command is what every round trip runs: the least that a program can do.
const command = "/bin/true"

// Rows of the measurement "exec"; docs/performance.md explains each clock.
const (
	rowNativeRun     = "native fork+exec"
	rowNativeCapture = "native fork+exec, output captured"
	rowGuest         = "exec round trip, guest wire"
	rowRecorded      = "exec round trip, recorded"
	// ofLoop ends the names of those that are compared with the loop inside.
	ofLoop = ", of its loop"
)

// series is the samples of one row, taken in turn with those of others.
type series struct {
	row    admin.BenchRow
	sample func() error
	// timed takes the place of sample where what is sampled has a clock of its own.
	timed func() ([]time.Duration, error)
	times []time.Duration
}

// take takes a sample.
func (s *series) take() ([]time.Duration, error) {
	if s.timed != nil {
		return s.timed()
	}
	start := time.Now()
	if err := s.sample(); err != nil {
		return nil, err
	}
	return []time.Duration{time.Since(start)}, nil
}

// inTurn takes n samples of every series, one of each at a time, after some to
// warm up.
func (r *run) inTurn(ctx context.Context, all []*series, n, warmUp int) error {
	for i := range n + warmUp {
		r.step("", i, n+warmUp)
		for _, s := range all {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := quiet(ctx, r.Sandboxes); err != nil {
				return err
			}
			times, err := s.take()
			if err != nil {
				return err
			}
			if i >= warmUp {
				s.times = append(s.times, times...)
			}
		}
	}
	r.step("", n+warmUp, n+warmUp)
	return nil
}

// roundTrips measures one command in a sandbox that is there.
func (r *run) roundTrips(ctx context.Context) error {
	all := []*series{
		{row: admin.BenchRow{Name: rowNativeRun}, sample: nativeRun},
		{row: admin.BenchRow{Name: rowNativeCapture, Baseline: rowNativeRun}, sample: nativeCapture},
	}
	var absent []admin.BenchRow
	loops := map[string]*series{} // by backend
	add := func(backend string, each func() ([]time.Duration, error), end func(), err error) func() {
		row := loopRow(backend)
		if err != nil {
			row.Note = "not measured: " + err.Error()
			absent = append(absent, row)
			return func() {}
		}
		if backend != "" && loops[""] != nil {
			row.Baseline = loopRow("").Name
		}
		loops[backend] = &series{row: row, timed: each}
		all = append(all, loops[backend])
		return end
	}
	each, end, err := nativeLooper(ctx)
	defer add("", each, end, err)()
	for _, name := range r.backends {
		s, err := cold.create(ctx, r.Sandboxes, request(name))
		if err != nil {
			return err
		}
		defer r.kill(s.ID)
		guest, err := r.Sandboxes.Client(ctx, s.ID)
		if err != nil {
			return err
		}
		all = append(all,
			&series{row: admin.BenchRow{Name: rowGuest, Backend: name, Baseline: rowNativeCapture}, sample: func() error { return overGuest(ctx, guest) }},
			&series{row: admin.BenchRow{Name: rowRecorded, Backend: name, Baseline: rowNativeCapture}, sample: func() error { return r.recorded(ctx, s.ID) }})
		each, end, err := r.looper(ctx, s.ID)
		if cerr := ctx.Err(); cerr != nil {
			return cerr
		}
		defer add(name, each, end, err)()
	}
	if err := r.inTurn(ctx, all, r.n, 10); err != nil {
		return err
	}
	base := map[string]float64{}
	for _, s := range all {
		fill(&s.row, s.times)
		if s.row.Backend == "" {
			base[s.row.Name] = s.row.P50MS
		}
		compare(&s.row, base[s.row.Baseline])
		r.report(s.row)
	}
	for _, row := range absent {
		r.report(row)
	}
	// The budget of a sandbox with a kernel of its own: of the same samples.
	for _, s := range all {
		if l := loops[s.row.Backend]; l != nil && s.row.Backend != "" && s != l {
			row := s.row
			row.Name, row.Baseline, row.Note = row.Name+ofLoop, rowLoop, "the samples above"
			compare(&row, l.row.P50MS)
			r.report(row)
		}
	}
	return nil
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
