package admission

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
)

// Defaults of a [Config].
const (
	DefaultMaxSandboxes  = 1000
	DefaultMemoryShare   = 0.8
	DefaultOvercommit    = 8
	DefaultCPUOvercommit = 64
	DefaultPatience      = 10 * time.Minute
)

// Bounds of waiting.
const (
	// maxLine and maxWaiting bound those who wait, of one account and of all.
	maxLine    = 1000
	maxWaiting = 10_000
	// tellEvery is the least time between two words to one waiter.
	tellEvery = time.Second
)

const (
	// lookEvery is how often the host is looked at; lookWaiting while somebody waits.
	lookEvery   = time.Second
	lookWaiting = 250 * time.Millisecond
	// startup is what a sandbox takes at once, in bytes: what is counted for one
	// that was let in after the last look at the host.
	startup = 32 << 20
)

// Config is what a gate needs. Zero numbers take the defaults.
type Config struct {
	// Measure looks at the host; see [Measurer]. Required. It is called by one
	// goroutine at a time.
	Measure func() (Host, error)
	// MaxSandboxes is how many there may be at a time.
	MaxSandboxes int
	// MemoryShare is the fraction of the host's memory for sandboxes,
	// above 0 and at most 1. Overcommit is how often the same byte of memory and
	// disk may be promised, CPUOvercommit the same of processors.
	MemoryShare, Overcommit, CPUOvercommit float64
	// Patience is how long anybody waits at most.
	Patience time.Duration
	// Waited, unless it is nil, learns of each wait that ended: what it was for at
	// last, how long it was, and whether it was let in. It must not call the gate.
	Waited func(cause api.WaitCause, took time.Duration, admitted bool)
	Logger *slog.Logger
}

// Gate lets sandboxes in. Its methods may be called from several goroutines at once.
type Gate struct {
	cfg Config

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	hurry  chan struct{} // holds one token when somebody began to wait

	mu     sync.Mutex
	closed bool
	host   Host
	floor  int64 // memory that is left to others
	unseen int64 // let in since the last look
	n      int
	memory int64 // promised, as disk and cpus
	disk   int64
	cpus   float64
	lines  map[string]*line
	ring   []*line // those with waiters; the first is next
	queued int
	// pace is about how long it takes until room is freed, of late.
	pace  time.Duration
	freed time.Time
}

// line is what one account waits for.
type line struct {
	account string
	waiters []*waiter
}

// waiter is one who waits. ended is closed when it was let in, or refused with err.
type waiter struct {
	req   sandbox.Need
	line  *line
	since time.Time
	ended chan struct{}
	// release is set before ended is closed, where it was let in.
	release func()
	err     error
}

// Open makes a gate. It fails where the host cannot be looked at.
func Open(cfg Config) (*Gate, error) {
	if cfg.MaxSandboxes == 0 {
		cfg.MaxSandboxes = DefaultMaxSandboxes
	}
	for _, d := range []struct {
		field *float64
		value float64
	}{{&cfg.MemoryShare, DefaultMemoryShare}, {&cfg.Overcommit, DefaultOvercommit}, {&cfg.CPUOvercommit, DefaultCPUOvercommit}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if cfg.Patience == 0 {
		cfg.Patience = DefaultPatience
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxSandboxes < 0 || cfg.MemoryShare < 0 || cfg.MemoryShare > 1 || cfg.Overcommit < 0 || cfg.CPUOvercommit < 0 || cfg.Patience < 0 {
		return nil, api.Errorf(api.KindInvalid, "admission: a number is negative, or a share is above 1")
	}
	h, err := cfg.Measure()
	if err != nil {
		return nil, err
	}
	g := &Gate{cfg: cfg, hurry: make(chan struct{}, 1), lines: map[string]*line{}}
	g.see(h)
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.wg.Go(g.look)
	return g, nil
}

// Close refuses those who wait, with KindUnavailable, and anyone who comes later. What
// is held may still be released.
func (g *Gate) Close() {
	g.mu.Lock()
	g.closed = true
	for _, l := range g.ring {
		for _, w := range l.waiters {
			w.err = stopping()
			close(w.ended)
		}
		l.waiters = nil
	}
	clear(g.lines)
	g.ring, g.queued = nil, 0
	g.mu.Unlock()
	g.cancel()
	g.wg.Wait()
}

func stopping() error { return api.Errorf(api.KindUnavailable, "the daemon is stopping") }

// Try lets a request in where there is room and nobody waits. It is nil where Admit
// would wait or refuse.
func (g *Gate) Try(req sandbox.Need) (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.queued > 0 || g.short(req) != 0 {
		return nil
	}
	return g.take(req)
}

// Admit lets a request in, at once or in its turn. told, unless it is nil, hears why
// and behind how many it waits: when that begins, and later when it has changed, at
// most once a second. It is called by Admit's own goroutine.
//
// release must be called once what was let in is gone.
//
// Errors: KindInvalid for what this host can never hold, at once; KindExhausted,
// with the time after which to try again, when there are too many waiters already,
// or no space came before patience or the context's deadline ended; KindUnavailable
// from a gate that closes; the context's own where it was canceled.
func (g *Gate) Admit(ctx context.Context, req sandbox.Need, told func(api.WaitingEvent)) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil, stopping()
	}
	refused := api.RefusedOf(ctx)
	if err := g.never(req); err != nil {
		g.mu.Unlock()
		if refused != nil {
			refused()
		}
		return nil, err
	}
	if g.queued == 0 && g.short(req) == 0 {
		defer g.mu.Unlock()
		return g.take(req), nil
	}
	if refused != nil {
		err := g.exhausted(api.Errorf(api.KindExhausted, "the host is full, and %d are waiting", g.queued), g.queued, g.short(req).cause())
		g.mu.Unlock()
		refused()
		return nil, err
	}
	w, err := g.join(req)
	g.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return g.wait(ctx, w, told)
}

// Hold counts what is there already, whether or not it fits. What it uses of the host
// has been seen.
func (g *Gate) Hold(req sandbox.Need) (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	release = g.take(req)
	g.unseen--
	return release
}

// State is what a gate holds.
type State struct {
	// Sandboxes were let in; Memory, Disk and CPUs are what they were promised.
	Sandboxes    int
	Memory, Disk int64
	CPUs         float64
	// MemoryBudget is the most memory that can be promised.
	MemoryBudget int64
	Waiting      int
	// Full is true if not even the smallest sandbox would be let in now.
	Full bool
}

// State returns what is held now.
func (g *Gate) State() State {
	g.mu.Lock()
	defer g.mu.Unlock()
	return State{Sandboxes: g.n, Memory: g.memory, Disk: g.disk, CPUs: g.cpus, MemoryBudget: g.memoryBudget(), Waiting: g.queued, Full: g.queued > 0 || g.short(sandbox.Need{}) != 0}
}

// take counts a request. The caller holds the lock.
func (g *Gate) take(req sandbox.Need) (release func()) {
	g.n++
	g.unseen++
	g.memory += req.Memory
	g.disk += req.Disk
	g.cpus += req.CPUs
	gone := false // guarded by the gate's lock
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if gone {
			return
		}
		gone = true
		g.n--
		g.memory -= req.Memory
		g.disk -= req.Disk
		g.cpus -= req.CPUs
		if g.n == 0 {
			g.cpus = 0 // what rounding left
		}
		now := time.Now()
		if !g.freed.IsZero() {
			g.pace = (3*g.pace + now.Sub(g.freed)) / 4
		}
		g.freed = now
		g.dispatch()
	}
}

// look looks at the host until the gate closes.
func (g *Gate) look() {
	next := time.NewTimer(lookEvery)
	defer next.Stop()
	failed := false
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-next.C:
		case <-g.hurry:
		}
		h, err := g.cfg.Measure()
		g.mu.Lock()
		if err == nil {
			g.see(h)
			g.dispatch()
		}
		waits := g.queued > 0
		g.mu.Unlock()
		if err != nil && !failed {
			g.cfg.Logger.Warn("the host's free capacity cannot be measured; using the last measurement", "error", err)
		}
		failed = err != nil
		if waits {
			next.Reset(lookWaiting)
		} else {
			next.Reset(lookEvery)
		}
	}
}

// see notes a look at the host. The caller holds the lock, or is the only one.
func (g *Gate) see(h Host) {
	if h.CPUs == 0 {
		h.CPUs = runtime.NumCPU()
	}
	g.host, g.unseen = h, 0
	g.floor = min(h.MemoryTotal/20, 1<<30)
}
