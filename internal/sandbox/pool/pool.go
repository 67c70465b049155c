package pool

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
)

const (
	// maxGroups bounds the kinds of sandboxes that are kept warm.
	maxGroups = 4
	// keepTime is how long a kind is kept warm without a request.
	keepTime = 10 * time.Minute
	// coolDown is the delay after a take before a group that still has a guest is refilled:
	// the claimed sandbox gets the processors first.
	coolDown = 25 * time.Millisecond
	// forkRest is the delay after a fork: its children run their first commands.
	forkRest = time.Second
	// headStart is the delay for an empty group: the duration of a first command, which is a
	// small part of a boot.
	headStart = 5 * time.Millisecond
	// prepareRest is the pause after a guest could not be prepared.
	prepareRest = time.Second
)

// kind is what sandboxes must have in common to use the same guests.
type kind struct {
	backend string
	layers  string
	// template is the name that the sandbox shows; a snapshot can have two.
	template string
	limits   api.Limits
	asked    sandbox.Asked
	egress   sandbox.Egress
	// snapshot is what they start from; empty for layers alone.
	snapshot api.SnapshotID
	// child is true for children of forks, whose state comes later.
	child bool
}

// group holds the guests of one kind.
type group struct {
	kind    kind
	prepare preparation
	spec    sandbox.Spec // all but the identifier
	ready   []*Guest
	used    time.Time
	taken   time.Time // when the last of its guests was taken
	fixed   bool      // kept without requests
	forks   int       // under way: their children get the processors first
	rest    time.Time // no attempt before
	failed  error     // of the last attempt
}

// preparation boots one guest that waits.
type preparation func(ctx context.Context, spec sandbox.Spec) (*Guest, error)

// Config is what a pool needs. All fields are required.
type Config struct {
	// Size is how many guests of each kind are booted ahead; 0 for none.
	Size   int
	Logger *slog.Logger
	Now    func() time.Time
	// Restore starts a guest from a snapshot.
	Restore func(ctx context.Context, id api.SnapshotID, spec sandbox.Spec) (sandbox.Machine, error)
}

// Pool boots guests ahead of requests, one at a time. One goroutine fills it and removes guests
// that have ended or are no longer requested.
type Pool struct {
	cfg Config

	wake   chan struct{} // holds one token when there is something to do
	again  *time.Timer   // when to look without being woken; set with the lock held
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	started bool
	groups  map[kind]*group
	changed chan struct{} // closed and made anew at every change
	// ids are the guests that were started here, with the time of their release; the zero
	// time for those that are in the pool or in use.
	ids map[api.SandboxID]time.Time
}

// New returns a pool. Close ends what it started.
func New(cfg Config) *Pool {
	p := &Pool{
		cfg: cfg, wake: make(chan struct{}, 1), again: time.NewTimer(time.Hour),
		groups: map[kind]*group{}, ids: map[api.SandboxID]time.Time{}, changed: make(chan struct{}),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// remembered is how long the pool knows a released guest, so that a search for leftovers that began
// before does not treat it as one.
const remembered = 10 * time.Minute

// begin remembers a guest before anything of it is made.
func (p *Pool) begin() api.SandboxID {
	id := api.NewSandboxID()
	p.mu.Lock()
	defer p.mu.Unlock()
	for old, gone := range p.ids {
		if !gone.IsZero() && p.cfg.Now().Sub(gone) > remembered {
			delete(p.ids, old)
		}
	}
	p.ids[id] = time.Time{}
	return id
}

// Release marks that nothing is left of a guest, or that it has a row.
func (p *Pool) Release(id api.SandboxID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids[id] = p.cfg.Now()
}

// Made reports whether a guest was begun here, a while after its end too.
func (p *Pool) Made(id api.SandboxID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.ids[id]
	return ok
}

// Want is a kind of sandbox: what to boot, on which backend.
type Want struct {
	Backend sandbox.Backend
	// Spec has everything but the identifier.
	Spec sandbox.Spec
	// Snapshot is what the sandbox starts from; nil for layers alone.
	Snapshot *api.Snapshot

	child bool // see Children
}

// kindOf returns the kind of a sandbox and how a guest of it is booted ahead, and whether
// that can be done. Of snapshots only templates are booted ahead.
func (p *Pool) kindOf(w Want) (kind, preparation, bool) {
	if p.cfg.Size == 0 || w.Spec.Workspace != nil {
		return kind{}, nil, false
	}
	k := kind{backend: w.Backend.Name(), template: w.Spec.Template, limits: w.Spec.Limits, asked: w.Spec.Asked, egress: w.Spec.Egress}
	for _, d := range w.Spec.Layers {
		k.layers += string(d) + "\n"
	}
	if w.child {
		k.template, k.child = "", true
		return k, func(ctx context.Context, spec sandbox.Spec) (*Guest, error) {
			m, err := expect(ctx, w.Backend, spec)
			return &Guest{ID: spec.ID, waits: m}, err
		}, w.Backend.Capabilities().Expect
	}
	if w.Snapshot != nil {
		k.snapshot = w.Snapshot.ID
		return k, func(ctx context.Context, spec sandbox.Spec) (*Guest, error) {
			m, err := p.cfg.Restore(ctx, k.snapshot, spec)
			if err != nil {
				return nil, err
			}
			return newGuest(spec.ID, m), nil // it has run before
		}, w.Snapshot.Name != ""
	}
	return k, func(ctx context.Context, spec sandbox.Spec) (*Guest, error) { return prepare(ctx, w.Backend, spec) }, w.Backend.Capabilities().Prepare
}

// Keeps returns the number of guests that the pool keeps for a kind; 0 if the backend cannot boot
// guests ahead or the pool has no size.
func (p *Pool) Keeps(w Want) int {
	if _, _, ok := p.kindOf(w); !ok {
		return 0
	}
	return p.cfg.Size
}

// Keep keeps guests of a kind warm from now on.
func (p *Pool) Keep(w Want, fixed bool) {
	k, b, ok := p.kindOf(w)
	if !ok {
		return
	}
	p.mu.Lock()
	s := p.group(k, b, w)
	s.fixed = s.fixed || fixed
	p.start()
	p.mu.Unlock()
	p.nudge()
}

// Take returns a warm guest of a kind and starts its replacement; nil if there is none.
func (p *Pool) Take(w Want) *Guest {
	k, b, ok := p.kindOf(w)
	if !ok {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return nil
	}
	s := p.group(k, b, w)
	p.start()
	for len(s.ready) > 0 {
		// The oldest first: what is new may still be cooling down.
		g := s.ready[0]
		s.ready = s.ready[1:]
		p.signal()
		if p.ended(g) {
			continue
		}
		s.taken = p.cfg.Now()
		p.again.Reset(s.pause()) // before that, nothing is filled
		return g
	}
	p.nudge()
	return nil
}

// ended reports whether a guest has ended, and then discards it.
func (p *Pool) ended(g *Guest) bool {
	if g.Machine == nil {
		return false // that is seen when it is restored
	}
	select {
	case <-g.Machine.Done():
		p.cfg.Logger.Warn("a pooled guest ended before it was claimed", "sandbox", g.ID, "cause", g.Machine.Cause())
		p.wg.Go(func() { p.Discard(g) })
		return true
	default:
		return false
	}
}

// pause is how long a group is left alone after a guest of it was taken.
func (s *group) pause() time.Duration {
	switch {
	case s.kind.child:
		return forkRest
	case len(s.ready) == 0:
		return headStart
	}
	return coolDown
}

// group finds or makes the group of a kind; the kind that was requested longest
// ago makes room.
func (p *Pool) group(k kind, b preparation, w Want) *group {
	s := p.groups[k]
	if s == nil {
		for len(p.groups) >= maxGroups {
			var oldest *group
			for _, s := range p.groups {
				if !s.fixed && (oldest == nil || s.used.Before(oldest.used)) {
					oldest = s
				}
			}
			if oldest == nil {
				break
			}
			p.drop(oldest)
		}
		s = &group{kind: k, prepare: b, spec: w.Spec}
		p.groups[k] = s
	}
	s.used = p.cfg.Now()
	return s
}

// drop takes a group down. The caller holds the lock.
func (p *Pool) drop(s *group) {
	delete(p.groups, s.kind)
	for _, g := range s.ready {
		p.wg.Go(func() { p.Discard(g) })
	}
	s.ready = nil
	p.signal()
}

// DropSnapshots takes down the groups of snapshots that are no more.
func (p *Pool) DropSnapshots(gone func(api.SnapshotID) bool) {
	p.mu.Lock()
	var all []*group
	for _, s := range p.groups {
		if s.kind.snapshot != "" {
			all = append(all, s)
		}
	}
	p.mu.Unlock()
	for _, s := range all {
		if !gone(s.kind.snapshot) {
			continue
		}
		p.mu.Lock()
		if p.groups[s.kind] == s && p.ctx.Err() == nil {
			p.drop(s)
		}
		p.mu.Unlock()
	}
}

// start starts the goroutine that fills, once. The caller holds the lock.
func (p *Pool) start() {
	if p.started || p.ctx.Err() != nil {
		return
	}
	p.started = true
	p.wg.Go(p.fill)
}

func (p *Pool) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// signal notifies all waiters of a change. The caller holds the lock.
func (p *Pool) signal() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// fill prepares guests until the pool closes.
func (p *Pool) fill() {
	defer p.again.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.wake:
		case <-p.again.C:
		}
		for s := p.next(); s != nil; s = p.next() {
			p.add(s)
		}
	}
}

// next finds a group to fill, after it has taken out what ended or got old. Where
// there is none, it sets when to look again.
func (p *Pool) next() (found *group) {
	wait := time.Second
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return nil
	}
	for _, s := range p.groups {
		if !s.fixed && p.cfg.Now().Sub(s.used) > keepTime {
			p.drop(s)
			continue
		}
		kept := s.ready[:0]
		for _, g := range s.ready {
			if !p.ended(g) {
				kept = append(kept, g)
			}
		}
		if len(kept) != len(s.ready) {
			clear(s.ready[len(kept):])
			s.ready = kept
			p.signal()
		}
		if len(s.ready) >= p.cfg.Size || s.forks > 0 || p.cfg.Now().Before(s.rest) {
			continue
		}
		if left := s.pause() - p.cfg.Now().Sub(s.taken); left > 0 {
			wait = min(wait, left)
			continue
		}
		if found == nil || len(s.ready) < len(found.ready) {
			found = s
		}
	}
	if found == nil {
		p.again.Reset(wait)
	}
	return found
}

// add puts one more guest on a group.
func (p *Pool) add(s *group) {
	spec := s.spec
	spec.ID = p.begin()
	g, err := s.prepare(p.ctx, spec)
	if err != nil {
		p.Release(spec.ID)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.failed = err
	if err != nil {
		s.rest = p.cfg.Now().Add(prepareRest)
		if p.ctx.Err() == nil {
			p.cfg.Logger.Warn("cannot boot a pooled guest", "backend", s.kind.backend, "error", err)
		}
		if k := api.KindOf(err); s.kind.snapshot != "" && (k == api.KindNotFound || k == api.KindConflict) && p.groups[s.kind] == s {
			p.drop(s) // the snapshot was removed or is broken
		}
		return
	}
	if p.groups[s.kind] != s || p.ctx.Err() != nil {
		p.wg.Go(func() { p.Discard(g) })
		return
	}
	s.ready = append(s.ready, g)
	p.signal()
}

func (p *Pool) Discard(g *Guest) {
	if err := g.kill(context.Background()); err != nil {
		p.cfg.Logger.Error("a pooled guest was not released", "sandbox", g.ID, "error", err)
		return
	}
	p.Release(g.ID)
}

// Close discards the guests in the pool and waits for everything that it started.
func (p *Pool) Close() {
	p.cancel()
	p.mu.Lock()
	for _, s := range p.groups {
		p.drop(s)
	}
	p.mu.Unlock()
	p.wg.Wait()
}

// Level counts the guests that wait, and those that should.
func (p *Pool) Level() (ready, want int, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.groups {
		ready += len(s.ready)
		want += p.cfg.Size
	}
	return ready, want, p.changed
}

// Failure is why a group that is not full could not be filled at the last attempt.
func (p *Pool) Failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.groups {
		if len(s.ready) < p.cfg.Size && s.failed != nil {
			return s.failed
		}
	}
	return nil
}
