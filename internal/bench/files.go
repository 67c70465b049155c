package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

// rowFiles begins the rows of the measurement "files".
const rowFiles = "files: "

// mostFiles is how many files work is done with, once the number of samples is large
// enough to mean it.
const mostFiles = 20_000

// place is where jobs are done.
type place struct {
	backend, name string // no backend is the host itself
	// fresh makes the place ready for a round, where every round begins with a sandbox
	// that has done nothing.
	fresh func(ctx context.Context) error
	run   func(ctx context.Context, argv []string) (string, error)
	// cpu is the processor time that commands have taken here so far. It moves less
	// than the clock on a machine that others use.
	cpu   func(ctx context.Context) (time.Duration, error)
	times map[string][]time.Duration
	used  map[string][]time.Duration
}

// files measures what is hard on a kernel that answers system calls itself: many small
// files. The same commands run on the host, on the sandbox's own disk, and in a durable
// workspace over a layer with the same files, one after another.
func (r *run) files(ctx context.Context) (err error) {
	count, n := min(500*r.n, mostFiles), min(max(r.n/40, 1), 10)
	r.step("", 0, n)
	dir, err := rivalsDir()
	if err != nil {
		return api.Errorf(api.KindInternal, "files: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := growNative(ctx, dir, count); err != nil {
		if cerr := ctx.Err(); cerr != nil {
			return cerr
		}
		r.report(admin.BenchRow{Name: rowFiles + "native", Note: "not measured: " + err.Error()})
		return nil
	}
	host := &place{
		name: "native", run: func(ctx context.Context, argv []string) (string, error) { return native(ctx, dir, argv) },
		cpu: func(context.Context) (time.Duration, error) { return childrenCPU() },
	}
	places := []*place{host}
	var ends []func()
	defer func() {
		for _, end := range ends {
			end()
		}
	}()
	var module string
	for _, backend := range r.backends {
		p, id, err := r.ownDisk(ctx, backend, count)
		if cerr := ctx.Err(); cerr != nil {
			return cerr
		}
		if err != nil {
			r.report(admin.BenchRow{Name: rowFiles + ownDisk, Backend: backend, Note: "not measured: " + err.Error()})
			continue
		}
		defer r.kill(id)
		places = append(places, p)
		if module == "" {
			if module, err = r.imports(ctx, id); err != nil {
				return err
			}
		}
		p, end, err := r.durable(ctx, backend, count)
		if err != nil {
			r.report(admin.BenchRow{Name: rowFiles + durable, Backend: backend, Note: "not measured: " + err.Error()})
			continue
		}
		ends = append(ends, end)
		places = append(places, p)
	}
	if len(places) == 1 {
		return nil
	}
	list := jobs(count, module)
	for i := range n {
		for _, p := range places {
			if p.fresh == nil {
				continue
			}
			if err := p.fresh(ctx); err != nil {
				return err
			}
		}
		for j, job := range list {
			r.step("", i*len(list)+j, n*len(list))
			for _, p := range places {
				if err := quiet(ctx, r.Sandboxes); err != nil {
					return err
				}
				if err := p.do(ctx, job); err != nil {
					return err
				}
			}
		}
	}
	r.step("", n*len(list), n*len(list))
	r.reportFiles(list, places, count)
	return nil
}

// do does a job, and knows how long it took.
func (p *place) do(ctx context.Context, j job) error {
	if j.first && p.fresh == nil && p.backend != "" {
		return nil
	}
	before, err := p.cpu(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	out, err := p.run(ctx, []string{"sh", "-c", j.command})
	took := time.Since(start)
	if err == nil && j.want != "" && strings.TrimSpace(out) != j.want {
		err = api.Errorf(api.KindInternal, "it wrote %.40q, not %s", out, j.want)
	}
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return api.Errorf(api.KindInternal, "%s %s: %s: %w", p.backend, p.name, j.command, err)
	}
	after, err := p.cpu(ctx)
	if p.times == nil {
		p.times, p.used = map[string][]time.Duration{}, map[string][]time.Duration{}
	}
	p.times[j.name], p.used[j.name] = append(p.times[j.name], took), append(p.used[j.name], after-before)
	return err
}

// reportFiles reports job by job, the host first.
func (r *run) reportFiles(list []job, places []*place, count int) {
	for _, j := range list {
		if j.name == "" {
			continue
		}
		name := rowFiles + j.name + ", "
		if !strings.HasPrefix(j.name, "Python") {
			name = fmt.Sprintf("%s%s of %d, ", rowFiles, j.name, count)
		}
		var base float64
		for _, p := range places {
			if len(p.times[j.name]) == 0 {
				continue
			}
			row := admin.BenchRow{Name: name + p.name, Backend: p.backend}
			if p.backend != "" {
				row.Baseline = name + places[0].name
			}
			fill(&row, p.times[j.name])
			if used := median(p.used[j.name]); used > 0 {
				row.Note = fmt.Sprintf("%.0f ms of processor time", ms(used))
			}
			compare(&row, base)
			if p == places[0] {
				base = row.P50MS
			}
			r.report(row)
		}
	}
}

// The places of a sandbox's files.
const (
	ownDisk = "own disk"
	durable = "workspace"
)

// busy requests a sandbox with room, and with as many processors as the host's own
// commands have, where there are limits.
func (r *run) busy(ctx context.Context, backend string) api.CreateSandbox {
	req := request(backend)
	for _, report := range r.Sandboxes.Reports(ctx) {
		if _, ok := report.Has(api.CapLimitCPU); !ok && report.Backend == backend {
			return req
		}
	}
	req.Limits = api.Limits{CPUs: float64(runtime.NumCPU()), MemoryBytes: 3 << 30, DiskBytes: 1 << 30, Processes: 512}
	return req
}

// runIn runs commands of jobs in a sandbox.
func (r *run) runIn(id api.SandboxID) func(context.Context, []string) (string, error) {
	return func(ctx context.Context, argv []string) (string, error) {
		out, _, err := r.command(ctx, id, api.ExecRequest{Args: argv, Env: environment("/tmp")}, "")
		return out, err
	}
}

// cpuOf reads what the host has counted for a sandbox; nothing where it does not count.
func (r *run) cpuOf(id api.SandboxID) func(context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		s, err := r.Sandboxes.Stats(ctx, id)
		if api.KindOf(err) == api.KindUnsupported {
			return 0, nil
		}
		return time.Duration(s.CPUTimeMS) * time.Millisecond, err
	}
}

// childrenCPU is the processor time of this process's children that were waited for.
func childrenCPU() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// ownDisk makes a sandbox with the files on its own disk.
func (r *run) ownDisk(ctx context.Context, backend string, count int) (*place, api.SandboxID, error) {
	s, err := cold.create(ctx, r.Sandboxes, r.busy(ctx, backend))
	if err != nil {
		return nil, "", err
	}
	p := &place{backend: backend, name: ownDisk, run: r.runIn(s.ID), cpu: r.cpuOf(s.ID)}
	if err := grow(count, func(argv []string) (string, error) { return p.run(ctx, argv) }); err != nil {
		r.kill(s.ID)
		return nil, "", err
	}
	return p, s.ID, nil
}

// durable makes files in a layer, and a workspace over it that a new sandbox has in each
// round.
func (r *run) durable(ctx context.Context, backend string, count int) (*place, func(), error) {
	if r.Place == nil {
		return nil, nil, errors.New("there are no workspaces here")
	}
	ws, remove, err := r.Place(ctx, func(dir string) error { return growNative(ctx, dir, count) })
	if err != nil {
		return nil, nil, err
	}
	p := &place{backend: backend, name: durable}
	var id api.SandboxID
	end := func() {
		if id != "" {
			r.kill(id)
			id = ""
		}
	}
	open := func(ctx context.Context) error {
		end()
		s, err := r.Sandboxes.CreateIn(ctx, r.busy(ctx, backend), ws)
		if err == nil {
			id, p.run, p.cpu = s.ID, r.runIn(s.ID), r.cpuOf(s.ID)
		}
		return err
	}
	away := func() {
		end()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		_ = remove(ctx) // what is left is nobody's, and is collected
	}
	if err := open(ctx); err != nil { // whether it can be had
		away()
		return nil, nil, err
	}
	p.fresh = open
	return p, away, nil
}
