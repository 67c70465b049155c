package prebuild

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"hortus.dev/api"
)

// Repositories are the connected repositories.
type Repositories interface {
	List(ctx context.Context) ([]api.Repository, error)
	// Sync fetches a repository.
	Sync(ctx context.Context, id api.RepositoryID, progress func(string)) (api.Repository, error)
	// Change changes a row; KindConflict if the repository is not connected any more.
	Change(ctx context.Context, id api.RepositoryID, do func(*api.Repository)) (api.Repository, error)
	// Changed has something when there may be something new to do.
	Changed() <-chan struct{}
}

// Config is the configuration of a Schedule. Repositories, Prepare and Owner must be set.
type Config struct {
	Repositories Repositories
	// Prepare runs the setup of a repository's branch until its end and returns the commit.
	// It calls started with its task.
	Prepare func(ctx context.Context, r api.Repository, started func(api.TaskID)) (commit string, err error)
	// Busy reports whether another caller prepares the repository now. It may be nil.
	Busy func(ctx context.Context, r api.Repository) (bool, error)
	// Leaving reports whether the daemon is stopping. Its tasks are cancelled then, which is
	// no result of a preparation. It may be nil.
	Leaving func() bool
	// Lead reports whether this daemon prepares for all that share the rows; nil if there are no others.
	Lead   func(context.Context) (bool, error)
	Owner  api.OwnerID
	Now    func() time.Time
	Logger *slog.Logger
}

const (
	// retryAfter is the time until a repository that another caller prepares is looked at again,
	// and until the rows are read again that could not be read.
	retryAfter = 10 * time.Second
	// maxBackoff is the maximum interval after failures, unless the schedule's own is longer.
	maxBackoff = 24 * time.Hour
	// fresh is how long a commit counts as prepared. Then it is prepared again: that costs a
	// second if nothing changed, keeps the result from garbage collection, and makes it again
	// if it was removed or the programs of the sandbox changed.
	fresh = 24 * time.Hour
)

// Schedule prepares repositories when they are due. Make one with New, and close it.
type Schedule struct {
	cfg    Config
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// New makes a Schedule and starts it.
func New(cfg Config) *Schedule {
	s := newSchedule(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.wg.Go(func() { s.run(ctx) })
	return s
}

func newSchedule(cfg Config) *Schedule {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Busy == nil {
		cfg.Busy = func(context.Context, api.Repository) (bool, error) { return false, nil }
	}
	if cfg.Leaving == nil {
		cfg.Leaving = func() bool { return false }
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Schedule{cfg: cfg}
}

// Close ends the schedule and waits for it. The task of a preparation that runs is not ended.
func (s *Schedule) Close(context.Context) error {
	s.cancel()
	s.wg.Wait()
	return nil
}

// run prepares what is due, and waits until something is.
func (s *Schedule) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.cfg.Repositories.Changed():
		}
		next, err := s.lead(ctx)
		if err != nil && ctx.Err() == nil {
			s.cfg.Logger.Error("cannot prepare repositories", "error", err)
			next = s.cfg.Now().Add(retryAfter)
		}
		timer.Stop()
		if !next.IsZero() {
			timer.Reset(max(0, next.Sub(s.cfg.Now())))
		}
	}
}

// leadEvery is how often a daemon asks whether it prepares, and looks for requests of others that share the rows.
const leadEvery = 10 * time.Second

// lead is step in the daemon that prepares. The others wait.
func (s *Schedule) lead(ctx context.Context) (next time.Time, err error) {
	if s.cfg.Lead == nil {
		return s.step(ctx)
	}
	leads, err := s.cfg.Lead(ctx)
	if leads && err == nil {
		next, err = s.step(ctx)
	}
	return earliest(next, s.cfg.Now().Add(leadEvery)), err
}

// step prepares the repository that is due first, if any. It returns when to look again; zero
// if nothing is planned.
func (s *Schedule) step(ctx context.Context) (next time.Time, err error) {
	all, err := s.cfg.Repositories.List(ctx)
	if err != nil {
		return time.Time{}, err
	}
	now := s.cfg.Now()
	slices.SortStableFunc(all, func(a, b api.Repository) int { return s.dueAt(a, now).Compare(s.dueAt(b, now)) })
	for _, r := range all {
		due := s.dueAt(r, now)
		switch {
		case due.IsZero():
			continue
		case due.After(now):
			return earliest(next, due), nil
		}
		busy, err := s.cfg.Busy(ctx, r)
		if err != nil {
			return time.Time{}, err
		}
		if busy {
			next = now.Add(retryAfter)
			continue
		}
		return now, s.prepare(ctx, r)
	}
	return next, nil
}

// dueAt returns when a repository is to be prepared; zero for never. What was requested comes
// before what is planned.
func (s *Schedule) dueAt(r api.Repository, now time.Time) time.Time {
	p := r.Preparation
	switch {
	case p == nil || r.State.Final() || p.Running && p.Owner != s.cfg.Owner:
		return time.Time{}
	case p.Requested, p.Running: // this goroutine runs none now: the end of one could not be recorded
		return now.Add(-api.MaxPrepareEvery)
	case r.PrepareEveryMS == 0:
		return time.Time{}
	}
	return p.NextAt
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// prepare prepares a repository and records the result.
func (s *Schedule) prepare(ctx context.Context, r api.Repository) error {
	requested := false
	_, err := s.change(ctx, r.ID, func(_ *api.Repository, p *api.Preparation) {
		requested = p.Requested || p.Running
		p.Running, p.Requested, p.Owner, p.StartedAt = true, false, s.cfg.Owner, s.now()
	})
	if err != nil {
		return removed(err)
	}
	commit, ran, why := s.attempt(ctx, r.ID, requested)
	if ctx.Err() != nil || s.cfg.Leaving() {
		return nil // the row says running, and the next daemon starts it again
	}
	_, err = s.change(ctx, r.ID, func(r *api.Repository, p *api.Preparation) {
		p.Running, p.EndedAt = false, s.now()
		switch {
		case why != nil:
			p.Failures++
			e := api.AsError(why)
			p.Error = &api.Error{Kind: e.Kind, Message: e.Error(), Hint: e.Hint}
		default:
			p.Failures, p.Error = 0, nil
		}
		if ran {
			p.Commit, p.PreparedAt = commit, p.EndedAt
		}
		p.NextAt = time.Time{}
		if r.PrepareEveryMS > 0 {
			p.NextAt = p.EndedAt.Add(interval(time.Duration(r.PrepareEveryMS)*time.Millisecond, p.Failures))
		}
	})
	if why != nil {
		s.cfg.Logger.Warn("the preparation of a repository failed", "repository", r.Name, "error", why)
	}
	return removed(err)
}

// interval is the time until the next preparation after a number of failures.
func interval(every time.Duration, failures int) time.Duration {
	d := every
	for range failures {
		if d >= maxBackoff/2 {
			return max(every, maxBackoff)
		}
		d *= 2
	}
	return d
}

// attempt fetches a repository and runs its setup. ran is false if it is not needed.
func (s *Schedule) attempt(ctx context.Context, id api.RepositoryID, requested bool) (commit string, ran bool, err error) {
	r, err := s.cfg.Repositories.Sync(ctx, id, nil)
	if err != nil {
		return "", false, err
	}
	if p := r.Preparation; !requested && p != nil && p.Failures == 0 && p.Commit == r.Commit && s.cfg.Now().Sub(p.PreparedAt) < fresh {
		return "", false, nil
	}
	commit, err = s.cfg.Prepare(ctx, r, func(task api.TaskID) {
		if _, err := s.change(ctx, id, func(_ *api.Repository, p *api.Preparation) { p.Task = task }); removed(err) != nil {
			s.cfg.Logger.Error("cannot record the task of a preparation", "repository", r.Name, "task", task, "error", err)
		}
	})
	return commit, err == nil, err
}

// change changes the preparation in a row.
func (s *Schedule) change(ctx context.Context, id api.RepositoryID, do func(*api.Repository, *api.Preparation)) (api.Repository, error) {
	return s.cfg.Repositories.Change(ctx, id, func(r *api.Repository) {
		var p api.Preparation
		if r.Preparation != nil {
			p = *r.Preparation
		}
		do(r, &p)
		r.Preparation = &p
	})
}

// removed leaves out the error for a repository that was disconnected meanwhile.
func removed(err error) error {
	if k := api.KindOf(err); k == api.KindConflict || k == api.KindNotFound {
		return nil
	}
	return err
}

func (s *Schedule) now() time.Time { return s.cfg.Now().UTC().Truncate(time.Microsecond) }
