package bench

import (
	"context"
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/bench/outgoing"
	"hortus.dev/internal/bench/restores"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/manager"
)

// Bench measures.
type Bench struct {
	// Sandboxes is the manager under measurement.
	Sandboxes *manager.Manager
	// Counters count what only the one who wired the daemon can see; the growth
	// over many sandboxes is reported of each.
	Counters []Counter
	// Runsc is the program that sandboxes of the gvisor backend run; empty where there
	// is none.
	Runsc string
	// Place makes files that sandboxes have at /workspace, as a repository is: a
	// read-only layer that fill writes into a directory, and a durable workspace over
	// it. remove takes both away, once no sandbox has them any more. It may be nil.
	Place func(ctx context.Context, fill func(dir string) error) (ws sandbox.Workspace, remove func(context.Context) error, err error)
	// Storage is the daemon's disk, for restores; nil is none.
	Storage *Storage
	// Trees are what is restored; restores has its own where it is empty.
	Trees []restores.Tree
	// Servers opens the ways in which others speak to this daemon; end closes what they
	// needed. nil is none.
	Servers func(ctx context.Context) (servers []Server, end func(), err error)
	// Divert has the connections of a sandbox made as usual, but to servers that have their
	// names and authorities from o, once a policy is set and until restore is called. nil is
	// a daemon that serves no connections.
	Divert func(id api.SandboxID, o outgoing.Outside) (restore func())
	// Secrets are the secrets of accounts; nil if the daemon keeps none.
	Secrets Secrets
}

// Secrets stores and removes secrets of accounts.
type Secrets interface {
	Set(ctx context.Context, account, name string, req secrets.Set) (secrets.Secret, error)
	Remove(ctx context.Context, account, name string) (secrets.Secret, error)
}

// Counter counts something that must not grow with the sandboxes that were made.
type Counter struct {
	// Name and Unit are the row's; Note says what the count includes.
	Name, Unit, Note string
	Count            func(context.Context) (float64, error)
}

// measurement is one group of rows, named by --only.
type measurement struct {
	name string
	take func(*run, context.Context) error
}

// measurements are taken in this order.
var measurements = []measurement{
	{"exec", (*run).roundTrips},
	{"create", (*run).creates},
	{"idle", (*run).idle},
	{"burst", (*run).bursts},
	{"growth", (*run).growth},
	{"save", (*run).saves},
	{"fork", (*run).forks},
	{measureDensity, densities},
	{"warm", (*run).warms},
	{"rivals", (*run).rivals},
	{"runsc", (*run).besidePlain},
	{"files", (*run).files},
	{"api", (*run).servers},
	{"egress", (*run).outgoing},
	{"cache", (*run).restores},
}

// Measurements names what Run can take.
func Measurements() []string {
	var out []string
	for _, m := range measurements {
		out = append(out, m.name)
	}
	return out
}

// defaultN is the number of samples.
const defaultN = 200

// run is one call of Run.
type run struct {
	*Bench
	amounts
	n        int
	backends []string
	report   func(admin.BenchRow)
	progress func(admin.BenchProgress)
	measure  string    // that is being taken
	shown    time.Time // when progress was last told
}

// Run takes the measurements that are requested, for each backend, and reports a
// row when it is complete. Both functions are called from the goroutine that
// called Run. Backends that cannot start here are left out, unless they were
// named: then it fails.
func (b *Bench) Run(ctx context.Context, req admin.BenchRequest, report func(admin.BenchRow), progress func(admin.BenchProgress)) error {
	if err := check(req); err != nil {
		return err
	}
	r := &run{Bench: b, amounts: amounts{req.HeldMB, req.Children}, n: req.N, report: report, progress: progress}
	if r.n == 0 {
		r.n = defaultN
	}
	var err error
	if r.backends, err = b.backends(ctx, req.Backends); err != nil {
		return err
	}
	for _, backend := range r.backends {
		if err := r.Sandboxes.KeepWarm(ctx, request(backend)); err != nil {
			return err
		}
	}
	if err := quiet(ctx, r.Sandboxes); err != nil {
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

// progressEvery is the least time between two words about one measurement.
const progressEvery = 500 * time.Millisecond

// step reports how far a measurement of a backend is: at its start and end, and in
// between not more often than anybody can read.
func (r *run) step(backend string, done, of int) {
	now := time.Now()
	if done > 0 && done < of && now.Sub(r.shown) < progressEvery {
		return
	}
	r.shown = now
	r.progress(admin.BenchProgress{Measure: r.measure, Backend: backend, Done: done, Of: of})
}
