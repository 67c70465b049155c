package upkeep

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"hortus.dev/internal/store"
)

// Bounds limit the ended rows of each account. Zero fields mean the defaults.
type Bounds struct {
	// Rows is the maximum number of sandboxes, and of snapshots, Execs that of commands,
	// Decisions that of decisions about outgoing connections, and of uses of secrets.
	Rows, Execs, Decisions int
	// Bytes is the maximum stored size of the rows of each kind.
	Bytes int64
	// Age is how long a row is kept after its end; no limit if it is below 0.
	Age time.Duration
}

// The defaults. Records of commands and of decisions are small and many: there are ten for
// each sandbox.
const (
	DefaultRows      = 10_000
	DefaultExecs     = 10 * DefaultRows
	DefaultDecisions = 10 * DefaultRows
	DefaultBytes     = 64 << 20
	DefaultAge       = 30 * 24 * time.Hour
)

// pruneEvery is the time between two rounds. At a thousand creates a second an account
// is at most 600,000 rows over its bound.
const pruneEvery = 10 * time.Minute

// PrunerConfig is the configuration of a pruner. Prune is required.
type PrunerConfig struct {
	// Prune removes the rows that exceed a retention.
	Prune  func(ctx context.Context, keep store.Retention) (store.Pruned, error)
	Bounds Bounds
	Every  time.Duration
	Now    func() time.Time
	Logger *slog.Logger
}

// Pruner removes the rows of what has ended, soon after it is made and from then on at intervals:
// those that are older than a maximum age, and the oldest beyond a maximum number and size for each
// account. One account's flood of short sandboxes does not push out what other accounts keep. The
// store checks each row's state in the transaction that removes it.
type Pruner struct {
	cfg    PrunerConfig
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// NewPruner creates a pruner and starts it.
func NewPruner(cfg PrunerConfig) *Pruner {
	b := &cfg.Bounds
	b.Rows = cmp.Or(b.Rows, DefaultRows)
	b.Execs = cmp.Or(b.Execs, 10*b.Rows)
	b.Decisions = cmp.Or(b.Decisions, 10*b.Rows)
	b.Bytes = cmp.Or(b.Bytes, DefaultBytes)
	b.Age = cmp.Or(b.Age, DefaultAge)
	cfg.Every = cmp.Or(cfg.Every, pruneEvery)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	p := &Pruner{cfg: cfg, cancel: cancel}
	p.wg.Go(func() { p.run(ctx) })
	return p
}

// Close ends the pruner and waits for it.
func (p *Pruner) Close(context.Context) error {
	p.cancel()
	p.wg.Wait()
	return nil
}

func (p *Pruner) run(ctx context.Context) {
	// Not at once: do not slow down the start of the daemon.
	next := time.NewTimer(p.cfg.Every / 10)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		done, err := p.prune(ctx)
		if err != nil && ctx.Err() == nil {
			p.cfg.Logger.Error("cannot remove old rows", "error", err)
		}
		if !done.Zero() {
			p.cfg.Logger.Info("removed old rows", "sandboxes", done.Sandboxes, "execs", done.Execs, "snapshots", done.Snapshots, "repositories", done.Repositories, "tasks", done.Tasks, "events", done.Events, "decisions", done.Decisions, "uses", done.Uses, "spent", done.Spent)
		}
		next.Reset(p.cfg.Every)
	}
}

func (p *Pruner) prune(ctx context.Context) (store.Pruned, error) {
	b := p.cfg.Bounds
	keep := store.Retention{Rows: b.Rows, Execs: b.Execs, Decisions: b.Decisions, Bytes: b.Bytes}
	if b.Age > 0 {
		keep.Before = p.cfg.Now().Add(-b.Age)
	}
	return p.cfg.Prune(ctx, keep)
}

// trimEvery is the time between two looks at the layers although none was added: what was in
// use may not be any more.
const trimEvery = 10 * time.Minute

// Trimmer keeps the layers of a keeper within their budget: whenever one was added, and at
// intervals. Make one with NewTrimmer, and close it.
type Trimmer struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// NewTrimmer starts a trimmer. added has something when a layer was added; every is the
// interval, 10 minutes if it is 0.
func NewTrimmer(k *Keeper, added <-chan struct{}, every time.Duration) *Trimmer {
	ctx, cancel := context.WithCancel(context.Background())
	t := &Trimmer{cancel: cancel}
	every = cmp.Or(every, trimEvery)
	t.wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-added:
			case <-tick.C:
			}
			if _, err := k.TrimLayers(ctx); err != nil && ctx.Err() == nil {
				k.cfg.Logger.Error("cannot keep the layers within their maximum size", "error", err)
			}
		}
	})
	return t
}

// Close ends the trimmer and waits for it.
func (t *Trimmer) Close(context.Context) error {
	t.cancel()
	t.wg.Wait()
	return nil
}
