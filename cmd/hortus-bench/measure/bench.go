package measure

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/cmd/hortus-bench/figure"
	"hortus.dev/cmd/hortus-bench/outgoing"
	"hortus.dev/cmd/hortus-bench/restores"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/daemon/network"
	"hortus.dev/internal/server/front"
)

// Config is what a Bench is made of.
type Config struct {
	// Daemon configures the daemon that is measured. Its listeners and what its sandboxes reach are set
	// by Open.
	Daemon daemon.Config
	// NPM is a directory with the installed npm package e2b; empty means none.
	NPM string
}

// Bench measures one daemon.
type Bench struct {
	daemon.Inside
	cfg     Config
	system  *daemon.System
	client  *client.Client
	url     string
	outside outgoing.Outside
	dir     string // for the certificate of outside
	stop    context.CancelFunc
	served  chan error
	// counters count what is counted besides this process; trees are those that "cache" restores.
	counters []counter
	trees    []restores.Tree
}

// Open opens a daemon and serves it until Close.
func Open(ctx context.Context, cfg Config) (b *Bench, err error) {
	b = &Bench{cfg: cfg, trees: restores.Trees()}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close(ctx))
		}
	}()
	if b.outside, err = outgoing.NewOutside(); err != nil {
		return nil, err
	}
	if b.dir, err = os.MkdirTemp("", "hortus-bench-"); err != nil {
		return nil, api.Errorf(api.KindInternal, "a directory for the benchmark: %w", err)
	}
	file := filepath.Join(b.dir, "ca.pem")
	if err := os.WriteFile(file, b.outside.CA, 0o600); err != nil {
		return nil, api.Errorf(api.KindInternal, "a directory for the benchmark: %w", err)
	}
	d := cfg.Daemon
	d.Idle, d.Front = -1, front.Config{Listen: "127.0.0.1:0", Announce: func(url string, _ api.CreatedKey) { b.url = url }}
	d.Egress = network.Config{Resolver: b.outside, CAFile: file}
	if b.system, err = daemon.Open(ctx, d); err != nil {
		return nil, err
	}
	b.Inside = b.system.Inside()
	b.counters = leftovers(b.Inside)
	// As a daemon does: every sandbox starts with a fork of this process.
	debug.SetGCPercent(50)
	debug.FreeOSMemory()
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.stop, b.served = stop, make(chan error, 1)
	ready := make(chan struct{})
	go func() { b.served <- b.system.Serve(serving, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-b.served:
		b.served <- nil
		return nil, err
	}
	b.client = client.Unix(b.Socket)
	return b, nil
}

// Close stops the daemon.
func (b *Bench) Close(ctx context.Context) error {
	var errs []error
	if b.stop != nil {
		b.stop()
		errs = append(errs, <-b.served)
	}
	if b.client != nil {
		b.client.Close()
	}
	if b.system != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		errs = append(errs, b.system.Close(ctx))
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
}

// measurement is one group of rows.
type measurement struct {
	name string
	take func(*run, context.Context) error
}

// measurements are taken in this order.
var measurements = []measurement{
	{"exec", (*run).roundTrips},
	{"create", each((*run).creates)},
	{"idle", each((*run).idle)},
	{"burst", eachWay((*run).bursts)},
	{"growth", eachWay((*run).growth)},
	{"save", eachSaver(rowSave, (*run).saves)},
	{"fork", eachSaver(rowFork, (*run).forks)},
	{measureDensity, eachSaver(rowDensity, (*run).densities)},
	{"warm", eachSaver(rowWarm, (*run).warms)},
	{"rivals", (*run).rivals},
	{"runsc", (*run).besidePlain},
	{"files", (*run).files},
	{"api", (*run).servers},
	{"egress", (*run).outgoing},
	{"cache", (*run).restores},
}

// each measures each backend.
func each(take func(*run, context.Context, string) error) func(*run, context.Context) error {
	return func(r *run, ctx context.Context) error {
		for _, backend := range r.backends {
			if err := take(r, ctx, backend); err != nil {
				return err
			}
		}
		return nil
	}
}

// eachWay measures each backend with each of its ways of creating sandboxes.
func eachWay(take func(*run, context.Context, string, way) error) func(*run, context.Context) error {
	return each(func(r *run, ctx context.Context, backend string) error {
		ways, err := r.waysOf(ctx, backend)
		if err != nil {
			return err
		}
		for _, w := range ways {
			if err := take(r, ctx, backend, w); err != nil {
				return err
			}
		}
		return nil
	})
}

// eachSaver measures each backend whose memory can be saved. Of each other a row of the name says why there
// are no figures.
func eachSaver(name string, take func(*run, context.Context, string) error) func(*run, context.Context) error {
	return each(func(r *run, ctx context.Context, backend string) error {
		if a, ok := r.has(ctx, backend, api.CapCheckpoint); !ok {
			r.report(figure.Missing(name, backend, a.Reason))
			return nil
		}
		return take(r, ctx, backend)
	})
}

// Measurements names what Run can take.
func Measurements() []string {
	var out []string
	for _, m := range measurements {
		out = append(out, m.name)
	}
	return out
}

// Request says what is measured.
type Request struct {
	Backends []string // empty means all that can start
	// Only names the measurements to take; empty means all but "density".
	Only []string
	// N is the number of samples of a round trip. The other measurements take samples in proportion to it.
	N int
	// HeldMB are how many MB a process holds in the sandboxes that are saved and forked; empty means 10,
	// 100 and 1000.
	HeldMB []int
	// Children are the numbers of children of a fork; empty means 1, 5, 20, and 100 of sandboxes with
	// more than 100 MB.
	Children []int
}

// Bounds of a request.
const (
	maxN    = 100_000
	maxHeld = 64 << 10 // MB
	// maxNumbers is for lists of sizes and of numbers of children.
	maxNumbers = 16
)

// holders are the measurements of sandboxes in which a process holds memory.
var holders = []string{"save", "fork", measureDensity}

// Check returns an error of KindInvalid for a request that cannot be measured, or names something that none
// of its measurements would use.
func (req Request) Check() error {
	if req.N < 1 || req.N > maxN {
		return api.Errorf(api.KindInvalid, "-n: %d is not between 1 and %d", req.N, maxN).WithHint("use for example -n 200")
	}
	for _, name := range req.Only {
		if !slices.Contains(Measurements(), name) {
			return api.Errorf(api.KindInvalid, "there is no measurement %.40q", name).
				WithHint("name some of: %s", strings.Join(Measurements(), ", "))
		}
	}
	if err := used(req.HeldMB, "MB of held memory", maxHeld, req.Only, holders); err != nil {
		return err
	}
	return used(req.Children, "children of a fork", api.MaxForks, req.Only, []string{"fork"})
}

// used checks numbers that only the measurements users have. only are the measurements that were requested;
// empty is all.
func used(numbers []int, what string, most int, only, users []string) error {
	hint := "leave the numbers out for those that fit most hosts"
	if len(numbers) > maxNumbers {
		return api.Errorf(api.KindInvalid, "%d numbers of %s, the maximum is %d", len(numbers), what, maxNumbers).WithHint("%s", hint)
	}
	for i, n := range numbers {
		if n < 1 || n > most {
			return api.Errorf(api.KindInvalid, "%d %s; the number must be between 1 and %d", n, what, most).WithHint("%s", hint)
		}
		if slices.Contains(numbers[:i], n) {
			return api.Errorf(api.KindInvalid, "%d %s twice", n, what).WithHint("name each number once")
		}
	}
	user := func(name string) bool { return slices.Contains(users, name) }
	if len(numbers) > 0 && len(only) > 0 && !slices.ContainsFunc(only, user) {
		return api.Errorf(api.KindInvalid, "none of the measurements %s has %s", strings.Join(only, ", "), what).
			WithHint("measure %s, or leave the numbers out", strings.Join(users, ", "))
	}
	return nil
}

// sizes are how many MB a process holds in the sandboxes that are saved and forked.
func (req Request) sizes() []int {
	if len(req.HeldMB) > 0 {
		return req.HeldMB
	}
	return []int{10, 100, 1000}
}

// families are the numbers of children: of what is large a hundred too, which is what sharing is for.
func (req Request) families(mb int) []int {
	switch {
	case len(req.Children) > 0:
		return req.Children
	case mb > 100:
		return []int{1, 5, 20, 100}
	}
	return []int{1, 5, 20}
}

// run is one call of Run.
type run struct {
	*Bench
	Request
	backends []string
	report   func(figure.Row)
	progress func(figure.Progress)
	measure  string    // that is being taken
	shown    time.Time // when progress was last told
}

// Run takes the measurements that are requested, for each backend, and reports a row when it is complete.
// Both functions are called from the goroutine that called Run. Backends that cannot start here are left
// out, unless they were named: then it fails.
func (b *Bench) Run(ctx context.Context, req Request, report func(figure.Row), progress func(figure.Progress)) error {
	if err := req.Check(); err != nil {
		return err
	}
	r := &run{Bench: b, Request: req, report: report, progress: progress}
	var err error
	if r.backends, err = b.startable(ctx, req.Backends); err != nil {
		return err
	}
	for _, backend := range r.backends {
		if err := r.Sandboxes.Creator.KeepWarm(ctx, request(backend)); err != nil {
			return err
		}
	}
	if err := r.quiet(ctx); err != nil {
		return err
	}
	for _, m := range measurements {
		if (len(req.Only) > 0 || m.name == measureDensity) && !slices.Contains(req.Only, m.name) {
			continue
		}
		r.measure, r.shown = m.name, time.Time{}
		if err := m.take(r, ctx); err != nil {
			return err
		}
	}
	return nil
}

// startable returns the backends that are named, or all that can start.
func (b *Bench) startable(ctx context.Context, named []string) ([]string, error) {
	for _, name := range named {
		if _, _, _, err := b.Sandboxes.Backends.Choose(ctx, name); err != nil {
			return nil, err
		}
	}
	if len(named) > 0 {
		return named, nil
	}
	var all []string
	for _, r := range b.Sandboxes.Backends.Reports(ctx) {
		if _, ok := r.Has(api.CapStart); ok {
			all = append(all, r.Backend)
		}
	}
	return all, nil
}

// progressEvery is the least time between two words about one measurement.
const progressEvery = 500 * time.Millisecond

// step reports how far a measurement of a backend is: at its start and end, and in between not more often
// than anybody can read.
func (r *run) step(backend string, done, of int) {
	now := time.Now()
	if done > 0 && done < of && now.Sub(r.shown) < progressEvery {
		return
	}
	r.shown = now
	r.progress(figure.Progress{Measure: r.measure, Backend: backend, Done: done, Of: of})
}

// times reports a row of times. base is the median of its baseline.
func (r *run) times(row figure.Row, times []time.Duration, base float64) {
	row.Times(times, base)
	r.report(row)
}
