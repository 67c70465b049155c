package shared

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/platform/perkey"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/storage/workspace/register"
)

// closeWithin is the maximum time that Close stores workspaces.
const closeWithin = 30 * time.Second

// Config is what Workspaces need.
type Config struct {
	Store    *workspace.Store
	Layers   *layer.Store
	Register *register.Register
	Logger   *slog.Logger
	// At, unless it is nil, is called at points of a store, in tests of crashes.
	At func(point string) error
}

// Workspaces are those of this host that other hosts may use too. Its methods may be called from several goroutines.
type Workspaces struct {
	cfg Config
	log *slog.Logger

	// turns has a workspace while it is taken, stored or removed, and "renew ID" while the record of its lease is written.
	turns perkey.Locks
	// files has a workspace while its files are sealed or replaced.
	files perkey.Locks

	mu   sync.Mutex
	held map[api.WorkspaceID]*hold

	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{}
	work   sync.WaitGroup
}

// hold is a workspace whose lease this host has.
type hold struct {
	// lease is nil if an earlier daemon took it.
	lease *register.Lease
	// opening counts those who opened it and whose sandbox does not have it yet.
	opening           int
	storing, renewing bool
	// again is true if there is a reason for another store when the one that runs has ended.
	again            bool
	stores, renewals trouble
}

// trouble is what keeps something from succeeding that is tried again; zero if nothing does.
type trouble struct {
	since    time.Time
	failures int
	why      string
}

// logEvery is how many failures there are from one that is logged to the next.
const logEvery = 10

// note notes how a try ended, and logs a failure now and then, and the end of the failures.
func (t *trouble) note(log *slog.Logger, err error, waiting, over string) {
	if err == nil {
		if t.failures > 0 {
			log.Info(over, "since", t.since)
		}
		*t = trouble{}
		return
	}
	if t.failures == 0 {
		t.since = time.Now()
	}
	if t.why = err.Error(); t.failures%logEvery == 0 {
		log.Warn(waiting, "since", t.since, "error", err, "hint", api.HintOf(err))
	}
	t.failures++
}

// New creates Workspaces. Those that an earlier daemon held are continued.
func New(cfg Config) *Workspaces {
	s := &Workspaces{cfg: cfg, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), held: map[api.WorkspaceID]*hold{}, wake: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Start begins to renew and to store, also what earlier daemons left. It comes after the recovery of sandboxes.
func (s *Workspaces) Start() error {
	ids, err := s.cfg.Store.List()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		c, err := s.cfg.Store.SharedCopy(id)
		if err != nil {
			s.log.Error("cannot read the record of a workspace", "workspace", id, "error", err)
			continue
		}
		if c != nil && c.Leased {
			s.held[id] = &hold{}
		}
	}
	s.work.Go(s.run)
	return nil
}

// run tends to what is held until Close.
func (s *Workspaces) run() {
	tick := time.NewTicker(s.cfg.Register.Renewal())
	defer tick.Stop()
	s.tend(true)
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			s.tend(true)
		case <-s.wake:
			s.tend(false)
		}
	}
}

// tend stores what nobody uses, except for what has failed, and at a tick also that, and renews all leases.
func (s *Workspaces) tend(tick bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, h := range s.held {
		if tick && !h.renewing {
			h.renewing = true
			s.work.Go(func() { s.renew(id, h) })
		}
		switch {
		case h.storing:
			h.again = true
		case h.opening == 0 && (tick || h.stores.failures == 0):
			h.storing, h.again = true, false
			s.work.Go(func() {
				_, _ = s.store(s.ctx, id, h) // it is logged, and tried again
				s.mu.Lock()
				h.storing = false
				again := h.again
				s.mu.Unlock()
				if again {
					s.Released(id)
				}
			})
		}
	}
}

// Released notes that a lease of a workspace on this host has ended. It does not wait.
func (s *Workspaces) Released(api.WorkspaceID) {
	select {
	case s.wake <- struct{}{}:
	default: // the next look sees this one too
	}
}

// Close stores what nobody uses, for a limited time, and ends all work. What is not stored is continued by the next daemon.
func (s *Workspaces) Close(ctx context.Context) error {
	s.cancel()
	s.work.Wait()
	ctx, cancel := context.WithTimeout(ctx, closeWithin)
	defer cancel()
	s.mu.Lock()
	for id, h := range s.held {
		if h.opening == 0 {
			s.work.Go(func() { _, _ = s.store(ctx, id, h) })
		}
	}
	s.mu.Unlock()
	s.work.Wait()
	return nil
}

// Waiting says since when and why what was written in a workspace is not stored; empty if nothing waits.
func (s *Workspaces) Waiting(id api.WorkspaceID) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[id]
	if h == nil || h.stores.failures == 0 {
		return ""
	}
	return "since " + h.stores.since.UTC().Format(time.RFC3339) + ": " + h.stores.why
}

// lookup returns a copy that is shared.
func (s *Workspaces) lookup(id api.WorkspaceID) (*workspace.Copy, error) {
	c, err := s.cfg.Store.SharedCopy(id)
	if err == nil && c == nil {
		err = api.Errorf(api.KindInvalid, "workspace %s is not shared between hosts", id)
	}
	return c, err
}

// entry returns the entry of a copy: KindNotFound if the workspace was removed by another host.
func (s *Workspaces) entry(ctx context.Context, c *workspace.Copy) (register.Entry, error) {
	e, err := s.cfg.Register.Find(ctx, c.Workspace.Account, c.Workspace.Name)
	if api.KindOf(err) == api.KindNotFound || err == nil && e.Workspace != c.ID {
		err := api.Errorf(api.KindNotFound, "another host has removed it; its files are still on this host").
			WithHint("keep them: hortus workspace fork %s NAME; then remove it here: hortus workspace rm %s", c.Workspace.Name, c.Workspace.Name)
		return e, lostError{err}
	}
	return e, err
}

// lostError is the error of a copy that is not the writer's any more. Trying again does not help.
type lostError struct{ error }

func (e lostError) Unwrap() error { return e.error }

// lost is an error of the register, which is a lostError if another host was faster.
func lost(err error) error {
	if api.KindOf(err) == api.KindConflict {
		return lostError{err}
	}
	return err
}

// about says which workspace an error is about.
func about(c *workspace.Copy, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return api.Errorf(api.KindOf(err), "workspace %s: %w", c.Workspace.Name, err).WithHint("%s", api.HintOf(err))
}

// pass passes a point of a store.
func (s *Workspaces) pass(point string) error {
	if s.cfg.At == nil {
		return nil
	}
	return s.cfg.At(point)
}

// Describe adds a workspace to the register, or finds the one that another host shares under that name, and brings its files here. The
// result is for a new workspace over layers, or over empty if nothing was stored yet. added is true if no host had one.
func (s *Workspaces) Describe(ctx context.Context, account, name string, quota int64, empty layer.Digest) (n workspace.New, added bool, err error) {
	if err := s.cfg.Register.Check(ctx); err != nil {
		return n, false, err
	}
	e, added, err := s.cfg.Register.Add(ctx, register.Entry{Workspace: api.NewWorkspaceID(), Account: account, Name: name, QuotaBytes: quota})
	if err != nil {
		return n, false, err
	}
	n = workspace.New{Name: name, Account: account, Quota: e.QuotaBytes, Keep: true, Layers: []layer.Digest{empty}, Version: &api.WorkspaceVersion{}}
	v, err := s.cfg.Register.Last(ctx, e.Workspace)
	if err == nil && v.Number > 0 {
		n.Version, n.Layers = known(v), nil
		for _, d := range v.Layers {
			n.Layers = append(n.Layers, layer.Digest(d))
		}
		err = s.fetch(ctx, v)
	}
	n.Remote = &workspace.Remote{ID: e.Workspace, Copy: rand.Text()}
	for _, d := range n.Layers {
		n.Remote.Layers = append(n.Remote.Layers, string(d))
	}
	return n, added, err
}

// known is what is recorded of a version.
func known(v register.Version) *api.WorkspaceVersion {
	return &api.WorkspaceVersion{Number: v.Number, Host: v.Host, StoredAt: v.StoredAt}
}

// Remove removes a workspace from the register, for all hosts, unless another host has it. The files on this host stay.
func (s *Workspaces) Remove(ctx context.Context, id api.WorkspaceID) error {
	c, err := s.lookup(id)
	if err != nil {
		return err
	}
	unlock, err := s.turns.Lock(ctx, string(id))
	if err != nil {
		return err
	}
	defer unlock()
	e, err := s.entry(ctx, c)
	if api.KindOf(err) == api.KindNotFound {
		return nil
	}
	if err == nil && s.cfg.Store.InUse(id) {
		err = errInUse
	}
	if err == nil {
		_, err = s.cfg.Register.Acquire(ctx, c.ID, c.Copy)
	}
	if err != nil {
		return about(c, err)
	}
	s.mu.Lock()
	delete(s.held, id) // nobody renews the lease
	s.mu.Unlock()
	renewed, err := s.turns.Lock(ctx, "renew "+string(id))
	if err != nil {
		return err
	}
	defer renewed()
	return about(c, s.cfg.Register.Remove(ctx, e))
}
