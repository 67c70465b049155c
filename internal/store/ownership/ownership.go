package ownership

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// Rows keeps the owners. Owners lists those that have not ended.
type Rows interface {
	InsertOwner(ctx context.Context, o store.Owner) error
	Owners(ctx context.Context) ([]store.Owner, error)
	BeatOwner(ctx context.Context, id api.OwnerID, at time.Time) error
	EndOwner(ctx context.Context, id api.OwnerID, at time.Time) error
	// OwnersElsewhere lists the owners of other nodes, ended ones too.
	OwnersElsewhere(ctx context.Context, node api.NodeID, lockPath string) ([]api.OwnerID, error)
	// Now is the clock that processes with these rows have in common.
	Now() time.Time
}

// Ownership is this process's own entry among the owners.
type Ownership struct {
	Owner store.Owner
	rows  Rows
	lease lease
}

// Register adds this process, which holds the lock at lockPath, to the owners. node is the node of a fleet that it is a run of; empty
// if other data directories do not share the rows.
func Register(ctx context.Context, rows Rows, node api.NodeID, lockPath string) (*Ownership, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	o := store.Owner{ID: api.NewOwnerID(), Host: host, LockPath: lockPath, PID: os.Getpid(), StartedAt: rows.Now().UTC(), Node: node}
	return &Ownership{Owner: o, rows: rows}, rows.InsertOwner(ctx, o)
}

// Close stops renewing the lease and removes this process from the owners.
func (o *Ownership) Close(ctx context.Context) error {
	o.lease.end()
	return o.rows.EndOwner(ctx, o.Owner.ID, o.rows.Now().UTC())
}

// Others are the owners besides this process.
type Others struct {
	rows  Rows
	ended []api.OwnerID
	alive map[api.OwnerID]bool
	// Silent are owners on other hosts that have not renewed their leases. Only their hosts
	// can say what still runs there, so nothing of theirs is recovered here. Alive are the others
	// that have not ended.
	Silent, Alive []store.Owner
}

// Others reads the other owners. An owner on this host has ended if it used this process's
// lock, or if lockIsFree says so of its lock. An owner on another host may be alive.
func (o *Ownership) Others(ctx context.Context, lockIsFree func(path string) bool) (*Others, error) {
	owners, err := o.rows.Owners(ctx)
	if err != nil {
		return nil, err
	}
	out := &Others{rows: o.rows, alive: map[api.OwnerID]bool{o.Owner.ID: true}}
	if o.Owner.Node != "" {
		elsewhere, err := o.rows.OwnersElsewhere(ctx, o.Owner.Node, o.Owner.LockPath)
		if err != nil {
			return nil, err
		}
		for _, id := range elsewhere {
			out.alive[id] = true
		}
	}
	for _, other := range owners {
		switch {
		case other.ID == o.Owner.ID:
		case o.Owner.Node != "" && out.alive[other.ID]: // another node's: its lease says whether it has ended
		case other.Host != o.Owner.Host, other.LockPath != o.Owner.LockPath && !lockIsFree(other.LockPath):
			out.alive[other.ID] = true
			if other.Host != o.Owner.Host && silent(other, o.rows.Now()) {
				out.Silent = append(out.Silent, other)
			} else {
				out.Alive = append(out.Alive, other)
			}
		default:
			out.ended = append(out.ended, other.ID)
		}
	}
	return out, nil
}

// Ended reports whether an owner has ended. Owners that ended in order are not listed, so an
// unknown owner has ended.
func (o *Others) Ended(id api.OwnerID) bool { return !o.alive[id] }

// Forget removes the owners that have ended, once everything that they left is recovered.
func (o *Others) Forget(ctx context.Context) error {
	for _, id := range o.ended {
		if err := o.rows.EndOwner(ctx, id, o.rows.Now().UTC()); err != nil {
			return err
		}
	}
	return nil
}

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
// owner: from then on its rows may be another user's. A store that cannot be reached is no
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
			err := o.rows.BeatOwner(ctx, o.Owner.ID, o.rows.Now().UTC())
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
