package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

// plainMB is how much is held by what plain gVisor saves and restores.
const plainMB = 100

// besidePlain measures the gvisor backend beside plain gVisor: a command in a sandbox that
// is there, a sandbox's whole life, a fork. One of ours and one of its own in turn.
// Its clocks are its processes, from the fork of the first to the exit of the last.
func (r *run) besidePlain(ctx context.Context) (err error) {
	const backend = "gvisor"
	if !slices.Contains(r.backends, backend) {
		r.report(admin.BenchRow{Name: rowRival + "runsc", Note: "runsc: the gvisor backend is not measured"})
		return nil
	}
	dir, err := rivalsDir()
	if err != nil {
		return api.Errorf(api.KindInternal, "rivals: %w", err)
	}
	defer os.RemoveAll(dir)
	p, err := newRunsc(r.Runsc, dir)
	if err != nil {
		r.report(admin.BenchRow{Name: rowRival + "runsc", Note: "runsc: " + err.Error()})
		return nil
	}
	defer p.close(ctx) // what is left lies in a directory that goes
	once, err := p.bundle("once", []string{command})
	if err != nil {
		return err
	}
	theirs, holding, err := p.held(ctx)
	if err != nil {
		r.report(admin.BenchRow{Name: rowRival + "runsc", Note: "runsc: " + err.Error()})
		return ctx.Err()
	}
	ours, err := r.held(ctx, backend, plainMB)
	if err != nil {
		return err
	}
	defer r.kill(ours)
	held := strconv.Itoa(plainMB)
	pairs := [][2]*series{
		{
			{row: admin.BenchRow{Name: rowRecorded, Backend: backend}, sample: func() error { return r.recorded(ctx, ours) }},
			{row: admin.BenchRow{Name: rowRival + "runsc exec"}, sample: func() error { return silent(p.command(ctx, "exec", theirs, command)) }},
		},
		{
			{row: admin.BenchRow{Name: rowWhole + cold.name, Backend: backend}, sample: func() error { return r.whole(ctx, cold, backend) }},
			{row: admin.BenchRow{Name: rowRival + "runsc run"}, sample: func() error { return silent(p.command(ctx, "run", "--bundle="+once, p.id())) }},
		},
		{
			{row: admin.BenchRow{Name: family(rowFork, plainMB, 1), Backend: backend}, timed: func() ([]time.Duration, error) {
				f, err := r.fork(ctx, ours, api.ForkSandbox{Count: 1}, nil)
				return f.each, err
			}},
			{
				row:   admin.BenchRow{Name: rowRival + "runsc checkpoint, restore, exec, " + held + " MB"},
				timed: func() ([]time.Duration, error) { return p.fork(ctx, theirs, holding) },
			},
		},
	}
	for i, pair := range pairs {
		n := max(r.n/8, 1)
		if i == 0 {
			n = r.n
		}
		if err := r.inTurn(ctx, pair[:], n, 1); err != nil {
			return err
		}
		for j, s := range pair {
			fill(&s.row, s.times)
			if j > 0 {
				s.row.Baseline = pair[0].row.Name
				compare(&s.row, pair[0].row.P50MS)
			}
			r.report(s.row)
		}
	}
	return nil
}

// held starts a container in which a process holds plainMB.
func (p *runsc) held(ctx context.Context) (id, bundle string, err error) {
	if bundle, err = p.bundle("held", python(holder, strconv.Itoa(plainMB))); err != nil {
		return "", "", err
	}
	id = p.id()
	if err = p.start(ctx, id, "run", "--detach", "--bundle="+bundle); err != nil {
		return "", "", err
	}
	return id, bundle, p.awaitHeld(ctx, id)
}

// awaitHeld waits until the program of a container holds what it is to hold.
func (p *runsc) awaitHeld(ctx context.Context, id string) error {
	const seen = `
import sys, time
while True:
    for line in open("/proc/1/status"):
        if line.startswith("VmRSS:") and int(line.split()[1]) >= int(sys.argv[1]) << 10:
            sys.exit(0)
    time.sleep(0.05)
`
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return silent(p.command(ctx, append([]string{"exec", id}, python(seen, strconv.Itoa(plainMB))...)...))
}

// fork saves a container, which continues, starts another from that, and runs a command
// in it. What comes after is not counted.
func (p *runsc) fork(ctx context.Context, id, bundle string) (_ []time.Duration, err error) {
	image := filepath.Join(p.dir, "image")
	if err := os.Mkdir(image, 0o700); err != nil {
		return nil, err
	}
	child := p.id()
	defer func() {
		err = errors.Join(err, os.RemoveAll(image))
	}()
	start := time.Now()
	if err := silent(p.command(ctx, "checkpoint", "--image-path="+image, "--leave-running", "--compression=none", id)); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	if err := p.start(ctx, child, "restore", "--detach", "--image-path="+image, "--bundle="+bundle); err != nil {
		return nil, fmt.Errorf("restore: %w", errors.Join(err, p.remove(ctx, child)))
	}
	if err := silent(p.command(ctx, "exec", child, command)); err != nil {
		return nil, fmt.Errorf("exec: %w", errors.Join(err, p.remove(ctx, child)))
	}
	took := time.Since(start)
	return []time.Duration{took}, p.remove(ctx, child)
}
