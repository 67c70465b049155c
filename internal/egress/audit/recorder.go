package audit

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/egress"
)

// Store stores decisions; store.Egress has its contract.
type Store interface {
	InsertEgress(ctx context.Context, all []api.EgressDecision) error
}

// Events appends to the log of a sandbox. An event.Log is one.
type Events interface {
	Append(ctx context.Context, s api.Stream, t api.EventType, data any) (api.Event, error)
}

// Config is the configuration of a recorder. Store is required.
type Config struct {
	Store Store
	// Events gets the decisions that are denied, failed, waiting or answers; nil means none.
	Events Events
	// Count is called with each decision, recorded or not, and with each gap; it must not
	// block. Answers are not decisions. nil counts nothing.
	Count func(api.EgressDecision)
	// Queue is the maximum number of decisions that wait to be stored (default 8192).
	Queue int
	// Delay is how long a decision waits for others, to be stored with them (default 100 ms).
	Delay  time.Duration
	Limits Limits
	Now    func() time.Time
	Logger *slog.Logger
}

// Limits are the maximum rates of records, in records a second, with bursts. Zero fields mean
// the defaults.
type Limits struct {
	// Sandbox limits the connections and requests of a sandbox that are allowed, and apart
	// from them everything else, so that a flood of refused ones does not hide an allowed one
	// (default 100, 2000).
	Sandbox, SandboxBurst int
	// Account limits all sandboxes of an account together (default 1000, 20,000). Between
	// two rounds of retention, which are ten minutes apart, it stores 600,000 records.
	Account, AccountBurst int
	// Events limits what is appended to the log of a sandbox (default 1, 100). Waiting
	// decisions and answers are limited by Asks.
	Events, EventsBurst int
}

func (l Limits) orDefaults() Limits {
	return Limits{
		cmp.Or(l.Sandbox, 100), cmp.Or(l.SandboxBurst, 2000),
		cmp.Or(l.Account, 1000), cmp.Or(l.AccountBurst, 20_000),
		cmp.Or(l.Events, 1), cmp.Or(l.EventsBurst, 100),
	}
}

// Recorder records decisions. Make one with NewRecorder, and close it. Its methods may be called
// from several goroutines.
type Recorder struct {
	cfg  Config
	log  *slog.Logger
	now  func() time.Time
	wake chan struct{} // something is queued
	// urgent ends the wait for other decisions: a person waits, or the queue is half full.
	urgent  chan struct{}
	flushes chan chan struct{}
	closing chan struct{}
	done    chan struct{} // the goroutine has ended
	cancel  context.CancelFunc

	mu       sync.Mutex
	closed   bool
	queue    []api.EgressDecision
	dropped  map[peer]int
	lost     int // decisions without any record
	gapAt    time.Time
	records  limits[recordKey]
	accounts limits[string]

	// Only the goroutine uses these.
	events     limits[api.SandboxID]
	suppressed map[peer]int // decisions that are recorded and not in the log
	failing    bool
	gaveUp     bool // the recorder is closed and the store failed
}

// peer is whose decision was dropped.
type peer struct {
	account string
	sandbox api.SandboxID
	task    api.TaskID
}

type recordKey struct {
	sandbox api.SandboxID
	carried bool
}

// maxPeers is the maximum number of sandboxes that drops are counted for at a time.
const maxPeers = 4096

var _ egress.Recorder = (*Recorder)(nil)

// NewRecorder creates a recorder and starts it.
func NewRecorder(cfg Config) *Recorder {
	cfg.Queue = cmp.Or(cfg.Queue, 8192)
	cfg.Delay = cmp.Or(cfg.Delay, 100*time.Millisecond)
	cfg.Limits = cfg.Limits.orDefaults()
	if cfg.Count == nil {
		cfg.Count = func(api.EgressDecision) {}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	l := cfg.Limits
	ctx, cancel := context.WithCancel(context.Background())
	r := &Recorder{
		cfg: cfg, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), now: cfg.Now, cancel: cancel,
		wake: make(chan struct{}, 1), urgent: make(chan struct{}, 1), flushes: make(chan chan struct{}), closing: make(chan struct{}), done: make(chan struct{}),
		dropped: map[peer]int{}, suppressed: map[peer]int{},
		records:  newLimits[recordKey](float64(l.Sandbox), l.SandboxBurst),
		accounts: newLimits[string](float64(l.Account), l.AccountBurst),
		events:   newLimits[api.SandboxID](float64(l.Events), l.EventsBurst),
	}
	go func() {
		defer close(r.done)
		r.run(ctx)
	}()
	return r
}

// Record implements egress.Recorder. It does not block. A decision without a time gets the
// present one.
func (r *Recorder) Record(d api.EgressDecision) {
	d = sanitize(d)
	now := r.now()
	if d.At.IsZero() {
		d.At = now
	}
	if d.Op != api.EgressOpAnswer {
		r.cfg.Count(d)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		r.lost += weight(d)
		return
	case len(r.queue) >= r.cfg.Queue || !r.allowed(d, now):
		r.drop(d)
	default:
		r.queue = append(r.queue, d)
	}
	signal(r.wake)
	if forPerson(d) || len(r.queue) >= r.cfg.Queue/2 {
		signal(r.urgent)
	}
}

// forPerson reports whether a person waits for the decision.
func forPerson(d api.EgressDecision) bool {
	return d.Result == api.EgressWaiting || d.Op == api.EgressOpAnswer
}

// weight is the number of decisions that a record stands for.
func weight(d api.EgressDecision) int { return max(d.Count, 1) }

// signal sets a flag that a goroutine waits for.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// allowed reports whether the limits allow a record. The caller holds the lock.
func (r *Recorder) allowed(d api.EgressDecision, now time.Time) bool {
	if forPerson(d) { // Asks limit them
		return true
	}
	carried := d.Op != "resolve" && d.Result == api.EgressAllowed
	return r.records.allow(recordKey{d.Sandbox, carried}, now) && r.accounts.allow(d.Account, now)
}

// drop counts a decision that is not recorded. The caller holds the lock.
func (r *Recorder) drop(d api.EgressDecision) {
	p := peer{d.Account, d.Sandbox, d.Task}
	if _, known := r.dropped[p]; !known && len(r.dropped) >= maxPeers {
		r.lost += weight(d)
		return
	}
	r.dropped[p] += weight(d)
}

// Flush returns when what was recorded before is stored, so that a reader of the store sees it, or
// with the error of ctx. After Close it returns nil.
func (r *Recorder) Flush(ctx context.Context) error {
	signal(r.urgent)
	flushed := make(chan struct{})
	select {
	case r.flushes <- flushed:
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-flushed:
	case <-r.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// Close records what is queued, for as long as ctx allows, and ends the recorder. Decisions that
// come later are lost. The error says how many were lost since the recorder was made.
func (r *Recorder) Close(ctx context.Context) error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.closing)
	}
	r.mu.Unlock()
	select {
	case <-r.done:
	case <-ctx.Done():
		r.cancel()
		<-r.done
	}
	r.cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost > 0 {
		return api.Errorf(api.KindInternal, "%d decisions about outgoing connections were not recorded", r.lost)
	}
	return nil
}
