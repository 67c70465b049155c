package takeover

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// Rows find what silent nodes left.
type Rows interface {
	InheritOwners(ctx context.Context, heir api.OwnerID, lease time.Duration, judges func() bool) ([]store.Inherited, error)
}

// Estate is what owners left that have ended.
type Estate struct {
	owners map[api.OwnerID]store.Inherited
}

// Gone reports whether an owner is one of them.
func (e Estate) Gone(id api.OwnerID) bool {
	_, ok := e.owners[id]
	return ok
}

// Why says for people why nothing of an owner runs any more.
func (e Estate) Why(id api.OwnerID) string {
	if name := e.owners[id].Name; name != "" {
		return "node " + name + " ended, or could not reach the database"
	}
	return "its node was removed"
}

// Step takes over one family of rows. Steps are called again for what they left.
type Step struct {
	// What names the rows in the log.
	What string
	Do   func(context.Context, Estate) (int, error)
}

// Config is what a Taker needs.
type Config struct {
	Rows Rows
	// Heir is the owner that takes over. Started reports whether it took an owner over when it started.
	Heir    api.OwnerID
	Started func(api.OwnerID) bool
	// Judges reports whether a node that seems silent is: after an outage of the database all do, until they renew their leases.
	Judges func() bool
	// Lease is the silence after which a node has ended.
	Lease time.Duration
	// Full reports whether this node has no capacity now: then others go first.
	Full func() bool
	// Steps are called in their order.
	Steps  []Step
	Logger *slog.Logger
}

// Taker takes over what silent nodes left, until Close.
type Taker struct {
	cfg    Config
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// Start begins to look for silent nodes.
func Start(cfg Config) *Taker {
	t := &Taker{cfg: cfg}
	ctx, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	tick := time.NewTicker(cfg.Lease / looks)
	t.done.Go(func() {
		defer tick.Stop()
		t.run(ctx, tick.C)
	})
	return t
}

// Close ends the work and waits for it. What is not taken over is another's.
func (t *Taker) Close(context.Context) error {
	t.cancel()
	t.done.Wait()
	return nil
}

func (t *Taker) run(ctx context.Context, tick <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		switch err := t.look(ctx); {
		case ctx.Err() != nil || api.KindOf(err) == api.KindConflict:
			return // this run has ended, too: what renews its lease stops it
		case err != nil:
			t.cfg.Logger.Warn("cannot look for nodes that have ended; retrying", "error", err)
		}
	}
}

// looks is how often a node looks in a lease.
const looks = 8

// forever is a lease that does not end: nobody is found silent, and what nodes have handed over is taken over all the same.
const forever = 100 * 365 * 24 * time.Hour

// look takes over once what is there.
func (t *Taker) look(ctx context.Context) error {
	lease, judges := t.cfg.Lease, t.cfg.Judges
	switch {
	case !judges():
		lease, judges = forever, nil
	case t.cfg.Full():
		lease += t.cfg.Lease / looks // the others have looked by then
	}
	all, err := t.cfg.Rows.InheritOwners(ctx, t.cfg.Heir, lease, judges)
	if err != nil {
		return err
	}
	e := Estate{owners: map[api.OwnerID]store.Inherited{}}
	for _, i := range all {
		if !t.cfg.Started(i.Owner) {
			e.owners[i.Owner] = i
		}
	}
	if len(e.owners) == 0 {
		return nil
	}
	var errs []error
	for _, s := range t.cfg.Steps {
		n, err := s.Do(ctx, e)
		if n > 0 {
			t.cfg.Logger.Info("took over what a node left that has ended", "what", s.What, "count", n)
		}
		if err != nil {
			errs = append(errs, api.Errorf(api.KindOf(err), "%s: %w", s.What, err))
		}
	}
	return errors.Join(errs...)
}
