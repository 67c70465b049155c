package connected

import (
	"context"
	"time"

	"hortus.dev/api"
)

// Schedule sets the interval of the preparations of a repository; 0 ends them.
func (s *Repositories) Schedule(ctx context.Context, id api.RepositoryID, req api.RepositorySchedule) (api.Repository, error) {
	if err := s.usable(); err != nil {
		return api.Repository{}, err
	}
	if err := req.Check(); err != nil {
		return api.Repository{}, err
	}
	defer s.wake()
	return s.Change(ctx, id, func(r *api.Repository) { schedule(r, req.PrepareEveryMS, s.now()) })
}

// schedule sets the interval in a row. The first preparation is due now, each later one an
// interval after the end of the one before.
func schedule(r *api.Repository, everyMS int64, now time.Time) {
	r.PrepareEveryMS = everyMS
	var p api.Preparation
	switch {
	case r.Preparation != nil:
		p = *r.Preparation
	case everyMS == 0:
		return
	}
	switch {
	case everyMS == 0:
		p.NextAt = time.Time{}
	case p.EndedAt.IsZero():
		p.NextAt = now
	default:
		p.NextAt = p.EndedAt.Add(time.Duration(everyMS) * time.Millisecond)
	}
	r.Preparation = &p
}

// Prepare requests the preparation of a repository in the background.
func (s *Repositories) Prepare(ctx context.Context, id api.RepositoryID) (api.Repository, error) {
	if err := s.usable(); err != nil {
		return api.Repository{}, err
	}
	defer s.wake()
	return s.Change(ctx, id, func(r *api.Repository) {
		var p api.Preparation
		if r.Preparation != nil {
			p = *r.Preparation
		}
		p.Requested = true
		r.Preparation = &p
	})
}

// Change changes the row of a repository. KindConflict if it is not connected any more.
func (s *Repositories) Change(ctx context.Context, id api.RepositoryID, do func(*api.Repository)) (api.Repository, error) {
	unlock, err := s.rows.Lock(ctx, string(id))
	if err != nil {
		return api.Repository{}, err
	}
	defer unlock()
	row, err := s.cfg.Rows.Repository(ctx, id)
	if err != nil {
		return api.Repository{}, err
	}
	if row.State.Final() {
		return api.Repository{}, gone(row)
	}
	do(&row)
	return row, s.cfg.Rows.UpdateRepository(context.WithoutCancel(ctx), row)
}

// List lists the connected repositories of all accounts.
func (s *Repositories) List(ctx context.Context) ([]api.Repository, error) {
	return s.cfg.Rows.ListRepositories(ctx)
}

// Changed has something when a schedule was set or a preparation was requested.
func (s *Repositories) Changed() <-chan struct{} { return s.changed }

func (s *Repositories) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}
