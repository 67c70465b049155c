package ownership

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// Lease is the time after which an owner on another host is silent that has not renewed its
// lease; renewEvery is how often an owner does.
const (
	Lease      = time.Minute
	renewEvery = 10 * time.Second
)

// lease is the goroutine that renews the lease of an owner.
type lease struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// Keep renews the lease until Close. It calls lost, once, when another process has ended this
// owner: from then on its rows may be somebody else's. A store that cannot be reached is no
// such end: the lock still shows that this process is alive.
func (o *Ownership) Keep(log *slog.Logger, lost func(error)) {
	ticks := time.NewTicker(renewEvery)
	o.keep(log, lost, ticks.C, ticks.Stop)
}

func (o *Ownership) keep(log *slog.Logger, lost func(error), ticks <-chan time.Time, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	o.lease.cancel = cancel
	o.lease.done.Go(func() {
		defer stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks:
			}
			err := o.rows.BeatOwner(ctx, o.Owner.ID, time.Now().UTC())
			switch kind := api.KindOf(err); {
			case err == nil || ctx.Err() != nil:
			case kind == api.KindConflict || kind == api.KindNotFound:
				lost(err)
				return
			default:
				log.Warn("cannot renew the lease of this daemon; retrying", "error", err)
			}
		}
	})
}

// end stops the renewal and waits for it.
func (l *lease) end() {
	if l.cancel != nil {
		l.cancel()
		l.done.Wait()
	}
}

// silent reports whether an owner on another host has not renewed its lease in time.
func silent(o store.Owner, now time.Time) bool {
	last := o.StartedAt
	if o.BeatAt.After(last) {
		last = o.BeatAt
	}
	return now.Sub(last) > Lease
}
