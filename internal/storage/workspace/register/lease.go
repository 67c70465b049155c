package register

import (
	"context"
	"slices"
	"time"

	"hortus.dev/api"
)

// Lease is the right of one copy of a workspace to write its next version, until it is released, or expires and another copy has
// taken it.
type Lease struct {
	id  api.WorkspaceID
	rec lease
}

// sighting is the lease of another host, as it was seen here first.
type sighting struct {
	content string
	since   time.Time
}

// Acquire takes the lease of a workspace for a copy, which is named by a text of rand.Text. A copy that has the lease gets it again.
//
// Errors: KindConflict while another copy has it; the message names its host.
func (r *Register) Acquire(ctx context.Context, id api.WorkspaceID, copy string) (Lease, error) {
	for range 3 { // each time another host was faster
		all, err := r.list(ctx, id)
		if err != nil {
			return Lease{}, err
		}
		last := slices.Max(append(all.leases, 0))
		if last > 0 {
			was, free, err := r.free(ctx, id, last, copy)
			if err != nil {
				return Lease{}, err
			}
			if !free {
				return Lease{id, was}, nil
			}
		}
		l := Lease{id, lease{Number: last + 1, Copy: copy, Host: r.cfg.Host, RenewedAt: r.cfg.Now().UTC()}}
		err = r.create(ctx, leaseBlob(id, l.rec.Number), l.rec)
		if api.KindOf(err) == api.KindExists {
			continue
		}
		if err != nil {
			return Lease{}, err
		}
		r.forget(id)
		for _, n := range all.leases { // they count no more; what is left is removed by the next one
			_ = r.cfg.Blobs.Remove(ctx, leaseBlob(id, n))
		}
		return l, nil
	}
	return Lease{}, api.Errorf(api.KindConflict, "other hosts take it at the same time").WithHint("try again")
}

// free reports whether a lease is free, or returns it if the copy has it: KindConflict if another one does.
func (r *Register) free(ctx context.Context, id api.WorkspaceID, n int, copy string) (was lease, free bool, err error) {
	start := r.cfg.Now()
	b, err := r.read(ctx, leaseBlob(id, n))
	if api.KindOf(err) == api.KindNotFound {
		return was, true, nil // removed since it was listed: it is not the last one
	}
	if err != nil {
		r.forget(id)
		return was, false, err
	}
	host := "another host"
	if err := parse(b, &was); err == nil && was.Number == n {
		switch {
		case was.Released:
			return was, true, nil
		case was.Copy == copy:
			return was, false, nil
		}
		host = "host " + was.Host
	}
	idle, expired := r.sight(id, string(b), start)
	if expired {
		return was, true, nil
	}
	return was, false, api.Errorf(api.KindConflict, "it is used by %s, or what was written there is being stored; a workspace has one writer at a time", host).
		WithHint("end its sandbox there and try again. If that host is down, try again in %v: its lease expires if it is not renewed", max(r.cfg.Expiry-idle, time.Second).Round(time.Second))
}

// sight notes what the lease of another host is, and says how long it has not changed. What was seen while the archive was slow does
// not count: the other host may not have been able to renew it.
func (r *Register) sight(id api.WorkspaceID, content string, start time.Time) (idle time.Duration, expired bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Now()
	was, ok := r.seen[id]
	if !ok || was.content != content || now.Sub(start) >= r.Renewal() {
		r.seen[id] = sighting{content, now}
		return 0, false
	}
	idle = now.Sub(was.since)
	return idle, idle >= r.cfg.Expiry
}

func (r *Register) forget(id api.WorkspaceID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, id)
}

// Renew renews a lease.
//
// Errors: KindConflict if another copy has taken it.
func (r *Register) Renew(ctx context.Context, l Lease) (Lease, error) {
	l.rec.Beats++
	l.rec.RenewedAt = r.cfg.Now().UTC()
	// It is written first: an older lease that is there again counts no more than before.
	if err := r.replace(ctx, leaseBlob(l.id, l.rec.Number), l.rec); err != nil {
		return l, err
	}
	last, err := r.last(ctx, l.id)
	if err == nil && last > l.rec.Number {
		err = api.Errorf(api.KindConflict, "another host has taken lease %d, because this one was not renewed in time", last)
	}
	return l, err
}

// last returns the number of the last lease.
func (r *Register) last(ctx context.Context, id api.WorkspaceID) (int, error) {
	all, err := r.list(ctx, id)
	return slices.Max(append(all.leases, 0)), err
}

// Release releases a lease, unless another copy has taken it or the workspace was removed.
func (r *Register) Release(ctx context.Context, l Lease) error {
	if last, err := r.last(ctx, l.id); err != nil || last != l.rec.Number {
		return err
	}
	l.rec.Released = true
	l.rec.Beats++
	return r.replace(ctx, leaseBlob(l.id, l.rec.Number), l.rec)
}
