package sandbox

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

const (
	// maxShelves bounds the kinds of sandboxes that are kept warm.
	maxShelves = 4
	// shelfLife is how long a kind is kept warm that nobody asks for.
	shelfLife = 10 * time.Minute
	// prepareTimeout bounds the boot of one guest and its warm-up.
	prepareTimeout = 30 * time.Second
	// settle is how long a shelf that still holds a guest is left alone after
	// somebody took one: what was claimed gets the processors first.
	settle = 25 * time.Millisecond
	// headStart is the same for a shelf that holds none any more: as long as a first
	// command takes, and a part of what a boot takes that nobody waits for yet.
	headStart = 5 * time.Millisecond
	// prepareRest is the pause after a guest could not be prepared.
	prepareRest = time.Second
)

// kind is what sandboxes must have in common so that one can stand for another.
type kind struct {
	backend string
	layers  string
	// template is the name that they tell, which a snapshot has two of.
	template string
	limits   api.Limits
	asked    Asked
	// snapshot is what they start from; empty for layers alone.
	snapshot api.SnapshotID
}

// warm is a guest that waits for whoever asks first. It has run nothing but the
// host's own warm-up, and serves one sandbox only.
type warm struct {
	id      api.SandboxID
	machine Prepared
	guest   *envd.Client
	gate    *gate
}

// shelf holds the guests of one kind.
type shelf struct {
	kind    kind
	prepare preparation
	spec    Spec // all but the identifier
	ready   []*warm
	used    time.Time
	taken   time.Time // when the last of its guests was taken
	fixed   bool      // kept however long nobody asks
	rest    time.Time // no attempt before
	failed  error     // of the last attempt
}

// preparation boots one guest that waits.
type preparation func(ctx context.Context, spec Spec) (*warm, error)

// pool boots guests ahead of their sandboxes: off the path of a create, one at a
// time. One goroutine fills it and looks after what lies in it.
type pool struct {
	size int
	log  *slog.Logger
	// restore starts a guest from a snapshot.
	restore func(ctx context.Context, id api.SnapshotID, spec Spec) (Prepared, error)

	now    func() time.Time
	wake   chan struct{} // holds one token when there is something to do
	again  *time.Timer   // when to look without being woken; set with the lock held
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	started bool
	shelves map[kind]*shelf
	changed chan struct{} // closed and made anew at every change
	// ids are the guests that were begun here, and since when they are nobody's
	// but the pool's any more: the zero time for those that lie in it.
	ids map[api.SandboxID]time.Time
}

// remembered is how long the pool knows a guest that it has let go, so that who
// looked at the host's directories before knows whose they were.
const remembered = 10 * time.Minute

// begin remembers a guest before anything of it is made.
func (p *pool) begin() api.SandboxID {
	id := api.NewSandboxID()
	p.mu.Lock()
	defer p.mu.Unlock()
	for old, gone := range p.ids {
		if !gone.IsZero() && p.now().Sub(gone) > remembered {
			delete(p.ids, old)
		}
	}
	p.ids[id] = time.Time{}
	return id
}

// letGo says that nothing is left of a guest, or that its row speaks for it.
func (p *pool) letGo(id api.SandboxID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids[id] = p.now()
}

// made says whether a guest was begun here, a while after its end too.
func (p *pool) made(id api.SandboxID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.ids[id]
	return ok
}

func newPool(size int, log *slog.Logger, now func() time.Time, restore func(context.Context, api.SnapshotID, Spec) (Prepared, error)) *pool {
	p := &pool{size: size, log: log, now: now, restore: restore, wake: make(chan struct{}, 1), again: time.NewTimer(time.Hour), shelves: map[kind]*shelf{}, ids: map[api.SandboxID]time.Time{}, changed: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// kindOf says what kind of sandbox a wish is for and how one is booted ahead, and
// whether that can be done. Of snapshots only templates are kept warm.
func (p *pool) kindOf(w *wish) (kind, preparation, bool) {
	if p.size == 0 {
		return kind{}, nil, false
	}
	k := kind{backend: w.backend.Name(), template: w.template, limits: w.limits, asked: w.asked}
	for _, d := range w.layers {
		k.layers += string(d) + "\n"
	}
	if w.snapshot != nil {
		k.snapshot = w.snapshot.ID
		return k, func(ctx context.Context, spec Spec) (*warm, error) {
			m, err := p.restore(ctx, k.snapshot, spec)
			if err != nil {
				return nil, err
			}
			return newWarm(spec.ID, m), nil // it has run before
		}, w.snapshot.Name != ""
	}
	b, ok := w.backend.(Preparer)
	return k, func(ctx context.Context, spec Spec) (*warm, error) { return prepare(ctx, b, spec) }, ok
}

// want makes sure that guests of a wish's kind are kept warm from now on.
func (p *pool) want(w *wish, fixed bool) {
	k, b, ok := p.kindOf(w)
	if !ok {
		return
	}
	p.mu.Lock()
	s := p.shelf(k, b, w)
	s.fixed = s.fixed || fixed
	p.start()
	p.mu.Unlock()
	p.nudge()
}

// take gives a warm guest of a wish's kind, or nil, and has it replaced.
func (p *pool) take(w *wish) *warm {
	k, b, ok := p.kindOf(w)
	if !ok {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return nil
	}
	s := p.shelf(k, b, w)
	p.start()
	for len(s.ready) > 0 {
		// The oldest first: what is new may still be cooling down.
		g := s.ready[0]
		s.ready = s.ready[1:]
		p.signal()
		select {
		case <-g.machine.Done():
			p.log.Warn("a warm guest ended while it waited", "sandbox", g.id, "cause", g.machine.Cause())
			p.wg.Go(func() { p.discard(g) })
		default:
			s.taken = p.now()
			p.again.Reset(s.quiet()) // before that, nothing is filled
			return g
		}
	}
	p.nudge()
	return nil
}

// quiet is how long a shelf is left alone after a guest of it was taken.
func (s *shelf) quiet() time.Duration {
	if len(s.ready) == 0 {
		return headStart
	}
	return settle
}

// shelf finds or makes the shelf of a kind; the kind that was asked for longest
// ago makes room.
func (p *pool) shelf(k kind, b preparation, w *wish) *shelf {
	s := p.shelves[k]
	if s == nil {
		for len(p.shelves) >= maxShelves {
			var oldest *shelf
			for _, s := range p.shelves {
				if !s.fixed && (oldest == nil || s.used.Before(oldest.used)) {
					oldest = s
				}
			}
			if oldest == nil {
				break
			}
			p.drop(oldest)
		}
		s = &shelf{kind: k, prepare: b, spec: Spec{Layers: w.layers, Limits: w.limits, Asked: w.asked, Hostname: hostname, Template: w.template}}
		p.shelves[k] = s
	}
	s.used = p.now()
	return s
}

// drop takes a shelf down. The caller holds the lock.
func (p *pool) drop(s *shelf) {
	delete(p.shelves, s.kind)
	for _, g := range s.ready {
		p.wg.Go(func() { p.discard(g) })
	}
	s.ready = nil
	p.signal()
}

// dropSnapshots takes down the shelves of snapshots that are no more.
func (p *pool) dropSnapshots(gone func(api.SnapshotID) bool) {
	p.mu.Lock()
	var all []*shelf
	for _, s := range p.shelves {
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
		if p.shelves[s.kind] == s && p.ctx.Err() == nil {
			p.drop(s)
		}
		p.mu.Unlock()
	}
}

// start starts the goroutine that fills, once. The caller holds the lock.
func (p *pool) start() {
	if p.started || p.ctx.Err() != nil {
		return
	}
	p.started = true
	p.wg.Go(p.fill)
}

func (p *pool) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// signal tells those who wait that something changed. The caller holds the lock.
func (p *pool) signal() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// fill prepares guests until the pool closes.
func (p *pool) fill() {
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

// next finds a shelf to fill, after it has taken out what ended or got old. Where
// there is none, it sets when to look again.
func (p *pool) next() (found *shelf) {
	wait := time.Second
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return nil
	}
	for _, s := range p.shelves {
		if !s.fixed && p.now().Sub(s.used) > shelfLife {
			p.drop(s)
			continue
		}
		kept := s.ready[:0]
		for _, g := range s.ready {
			select {
			case <-g.machine.Done():
				p.log.Warn("a warm guest ended while it waited", "sandbox", g.id, "cause", g.machine.Cause())
				p.wg.Go(func() { p.discard(g) })
			default:
				kept = append(kept, g)
			}
		}
		if len(kept) != len(s.ready) {
			clear(s.ready[len(kept):])
			s.ready = kept
			p.signal()
		}
		if len(s.ready) >= p.size || p.now().Before(s.rest) {
			continue
		}
		if left := s.quiet() - p.now().Sub(s.taken); left > 0 {
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

// add puts one more guest on a shelf.
func (p *pool) add(s *shelf) {
	spec := s.spec
	spec.ID = p.begin()
	g, err := s.prepare(p.ctx, spec)
	if err != nil {
		p.letGo(spec.ID)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.failed = err
	if err != nil {
		s.rest = p.now().Add(prepareRest)
		if p.ctx.Err() == nil {
			p.log.Warn("no guest could be booted ahead", "backend", s.kind.backend, "error", err)
		}
		if k := api.KindOf(err); s.kind.snapshot != "" && (k == api.KindNotFound || k == api.KindConflict) && p.shelves[s.kind] == s {
			p.drop(s) // the snapshot is gone or broken
		}
		return
	}
	if p.shelves[s.kind] != s || p.ctx.Err() != nil {
		p.wg.Go(func() { p.discard(g) })
		return
	}
	s.ready = append(s.ready, g)
	p.signal()
}

// prepare boots a guest and runs a command in it, so that the first command of
// its user finds everything in place: the connection, the guest's own code and
// memory, and the path to a process's end.
func prepare(ctx context.Context, b Preparer, spec Spec) (_ *warm, err error) {
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	m, err := b.Prepare(ctx, spec)
	if err != nil {
		return nil, err
	}
	g := newWarm(spec.ID, m)
	if err := g.warmUp(ctx); err != nil {
		return nil, errors.Join(err, g.kill(context.WithoutCancel(ctx)))
	}
	return g, nil
}

func newWarm(id api.SandboxID, m Prepared) *warm {
	gate := &gate{}
	return &warm{id: id, machine: m, guest: gate.client(m.Link()), gate: gate}
}

// warmUps is how often the warm-up runs: the guest's first run is the slow one,
// the second grows its pools to what a command needs.
const warmUps = 2

func (g *warm) warmUp(ctx context.Context) error {
	no := false
	for range warmUps {
		ps, err := g.guest.Start(ctx, &envd.StartRequest{Process: &envd.ProcessConfig{Cmd: "/bin/true"}, Stdin: &no}, envd.StartOptions{WarmUp: true})
		if err != nil {
			return guestError(err)
		}
		for err == nil {
			_, err = ps.Next()
		}
		ps.Close()
		// A template without the program warms up all but the command itself.
		if err = guestError(err); !errors.Is(err, io.EOF) && api.KindOf(err) != api.KindNotFound {
			return err
		}
	}
	return nil
}

func (g *warm) kill(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	g.guest.Close()
	_, err := g.machine.Kill(ctx)
	return err
}

func (p *pool) discard(g *warm) {
	if err := g.kill(context.Background()); err != nil {
		p.log.Error("a warm guest was not freed", "sandbox", g.id, "error", err)
		return
	}
	p.letGo(g.id)
}

// close discards what lies in the pool and waits for everything that it began.
func (p *pool) close() {
	p.cancel()
	p.mu.Lock()
	for _, s := range p.shelves {
		p.drop(s)
	}
	p.mu.Unlock()
	p.wg.Wait()
}

// level counts the guests that wait, and those that should.
func (p *pool) level() (ready, want int, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.shelves {
		ready += len(s.ready)
		want += p.size
	}
	return ready, want, p.changed
}

// failure is why a shelf that is not full could not be filled at the last attempt.
func (p *pool) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.shelves {
		if len(s.ready) < p.size && s.failed != nil {
			return s.failed
		}
	}
	return nil
}
