package retention

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

// DefaultEvery is the time between two rounds. At a thousand creates a second an account
// is at most 600,000 rows over its bound.
const DefaultEvery = 10 * time.Minute

// Config is the configuration of a keeper. Prune is required.
type Config struct {
	// Prune removes the rows that exceed a retention.
	Prune  func(ctx context.Context, keep store.Retention) (store.Pruned, error)
	Bounds Bounds
	Every  time.Duration
	Now    func() time.Time
	Logger *slog.Logger
}

// Keeper prunes at intervals. Make one with New, and close it.
type Keeper struct {
	cfg    Config
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// New creates a keeper and starts it.
func New(cfg Config) *Keeper {
	b := &cfg.Bounds
	b.Rows = cmp.Or(b.Rows, DefaultRows)
	b.Execs = cmp.Or(b.Execs, 10*b.Rows)
	b.Decisions = cmp.Or(b.Decisions, 10*b.Rows)
	b.Bytes = cmp.Or(b.Bytes, DefaultBytes)
	b.Age = cmp.Or(b.Age, DefaultAge)
	cfg.Every = cmp.Or(cfg.Every, DefaultEvery)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	k := &Keeper{cfg: cfg, cancel: cancel}
	k.wg.Go(func() { k.run(ctx) })
	return k
}

// Close ends the keeper and waits for it.
func (k *Keeper) Close(context.Context) error {
	k.cancel()
	k.wg.Wait()
	return nil
}

func (k *Keeper) run(ctx context.Context) {
	// Not at once: do not slow down the start of the daemon.
	next := time.NewTimer(k.cfg.Every / 10)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		done, err := k.prune(ctx)
		if err != nil && ctx.Err() == nil {
			k.cfg.Logger.Error("cannot remove old rows", "error", err)
		}
		if !done.Zero() {
			k.cfg.Logger.Info("removed old rows", "sandboxes", done.Sandboxes, "execs", done.Execs, "snapshots", done.Snapshots, "repositories", done.Repositories, "tasks", done.Tasks, "events", done.Events, "decisions", done.Decisions, "uses", done.Uses, "spent", done.Spent)
		}
		next.Reset(k.cfg.Every)
	}
}

func (k *Keeper) prune(ctx context.Context) (store.Pruned, error) {
	b := k.cfg.Bounds
	keep := store.Retention{Rows: b.Rows, Execs: b.Execs, Decisions: b.Decisions, Bytes: b.Bytes}
	if b.Age > 0 {
		keep.Before = k.cfg.Now().Add(-b.Age)
	}
	return k.cfg.Prune(ctx, keep)
}
