package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/cmd/hortus-bench/figure"
	"hortus.dev/cmd/hortus-bench/program"
)

// Rows of the measurement "exec"; docs/benchmarks.md explains each clock.
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
	row    figure.Row
	sample func() ([]time.Duration, error)
	times  []time.Duration
}

// clocked is a sample of how long f takes.
func clocked(f func() error) func() ([]time.Duration, error) {
	return func() ([]time.Duration, error) {
		start := time.Now()
		err := f()
		return []time.Duration{time.Since(start)}, err
	}
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
			if err := r.quiet(ctx); err != nil {
				return err
			}
			times, err := s.sample()
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

// showAll reports series. A baseline is the first series of its name, which stands before what is compared with
// it. skip leaves out rows that another measurement reports.
func (r *run) showAll(all []*series, skip func(figure.Row) bool) {
	base := map[string]float64{}
	for _, s := range all {
		if _, ok := base[s.row.Name]; !ok {
			base[s.row.Name] = figure.Median(s.times)
		}
		if skip == nil || !skip(s.row) {
			r.times(s.row, s.times, base[s.row.Baseline])
		}
	}
}

// roundTrips measures one command in a sandbox that is there.
func (r *run) roundTrips(ctx context.Context) error {
	all := []*series{
		{row: figure.Row{Name: rowNativeRun}, sample: clocked(nativeRun)},
		{row: figure.Row{Name: rowNativeCapture, Baseline: rowNativeRun}, sample: clocked(nativeCapture)},
	}
	var absent []figure.Row
	loops := map[string]*series{} // by backend
	add := func(backend string, talk *program.Talk, err error) (end func()) {
		row := loopRow(backend)
		if err != nil {
			row.Note = "not measured: " + err.Error()
			absent = append(absent, row)
			return func() {}
		}
		if backend != "" && loops[""] != nil {
			row.Baseline = loopRow("").Name
		}
		loops[backend] = &series{row: row, sample: func() ([]time.Duration, error) {
			answer, err := talk.Ask(ctx, strconv.Itoa(loopRuns))
			if err != nil {
				return nil, err
			}
			return durations(answer)
		}}
		all = append(all, loops[backend])
		return talk.Close
	}
	talk, err := nativeTalk(ctx)
	defer add("", talk, err)()
	for _, name := range r.backends {
		s, err := r.Sandboxes.Creator.CreateCold(ctx, request(name))
		if err != nil {
			return err
		}
		defer r.kill(s.ID)
		guest, err := r.Sandboxes.Guests.Client(ctx, s.ID)
		if err != nil {
			return err
		}
		all = append(all,
			&series{row: figure.Row{Name: rowGuest, Backend: name, Baseline: rowNativeCapture}, sample: clocked(func() error { return overGuest(ctx, guest) })},
			&series{row: figure.Row{Name: rowRecorded, Backend: name, Baseline: rowNativeCapture}, sample: clocked(func() error { return r.recorded(ctx, s.ID) })})
		talk, err := r.talk(ctx, s.ID, python(loop))
		if cerr := ctx.Err(); cerr != nil {
			return cerr
		}
		defer add(name, talk, err)()
	}
	if err := r.inTurn(ctx, all, r.N, 10); err != nil {
		return err
	}
	r.showAll(all, nil)
	for _, row := range absent {
		r.report(row)
	}
	// The budget of a sandbox with a kernel of its own: of the same samples.
	for _, s := range all {
		if l := loops[s.row.Backend]; l != nil && s.row.Backend != "" && s != l {
			row := s.row
			row.Name, row.Baseline, row.Note = row.Name+ofLoop, rowLoop, "the samples above"
			r.times(row, s.times, figure.Median(l.times))
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

// loop starts a program and waits for its end, as often as each line of its input
// says, and writes how long each took, in nanoseconds. posix_spawn is what the C
// library offers for it and forks as the guest does, without a copy of the address
// space; Python adds some 20 microseconds around it.
const loop = `
import os, sys, time
for line in sys.stdin:
    took = []
    for _ in range(int(line)):
        start = time.monotonic_ns()
        pid = os.posix_spawn("` + command + `", ["` + command + `"], {})
        _, status = os.waitpid(pid, 0)
        took.append(time.monotonic_ns() - start)
        if status != 0:
            sys.exit("` + command + ` ended with %d" % status)
    print(*took, flush=True)
`

// loopRuns is how many runs of the loop are requested at once.
const loopRuns = 5

// rowLoop is the floor of an exec in a sandbox: what the kernel inside needs for it.
const rowLoop = "fork+exec loop inside"

// loopRow explains it.
func loopRow(backend string) figure.Row {
	name := rowLoop
	if backend == "" {
		name = "fork+exec loop, native"
	}
	return figure.Row{Name: name, Backend: backend, Note: fmt.Sprintf("posix_spawn and wait of %s in a Python process, %d at a time, in turn with the rows above", command, loopRuns)}
}

// nativeTalk starts a loop on this host.
func nativeTalk(ctx context.Context) (*program.Talk, error) {
	python3, err := program.Find("python3")
	if err != nil {
		return nil, err
	}
	return program.Start(exec.CommandContext(ctx, python3, python(loop)[1:]...))
}

// durations reads what a loop wrote.
func durations(line string) ([]time.Duration, error) {
	fields := strings.Fields(line)
	if len(fields) != loopRuns {
		return nil, api.Errorf(api.KindInternal, "a loop of %d answered %.100q", loopRuns, line)
	}
	out := make([]time.Duration, len(fields))
	for i, f := range fields {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil || n <= 0 {
			return nil, api.Errorf(api.KindInternal, "a loop answered %.100q", line)
		}
		out[i] = time.Duration(n)
	}
	return out, nil
}
