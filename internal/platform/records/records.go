package records

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"hortus.dev/api"
)

// Config is the configuration of a writer. What, Insert, Owner and Gap are required.
type Config[R any, O comparable] struct {
	// What names the records in errors and in the log, in the plural.
	What string
	// Insert stores records in one transaction. One that fails with KindInvalid is repeated for
	// each record alone, and a record that is refused then is lost; other errors are retried.
	Insert func(ctx context.Context, all []R) error
	// Owner returns whose record it is, and Gap the record of a number of missing records of
	// somebody.
	Owner func(R) O
	Gap   func(o O, missed int, at time.Time) R
	// Weight is the number that a record stands for; nil means 1.
	Weight func(R) int
	// Stored is called with records that were stored; nil does nothing.
	Stored func(ctx context.Context, all []R)
	// Round is called whenever everything was stored that is due. more makes it be called again
	// within a second. closing is true in the last call. nil does nothing.
	Round func(ctx context.Context, closing bool) (more bool)
	// Queue is the maximum number of records that wait to be stored (default 4096).
	Queue int
	// Delay is how long a record waits for others, to be stored with them (default 100 ms).
	Delay  time.Duration
	Now    func() time.Time
	Logger *slog.Logger
}

const (
	// batch is the maximum number of records of one transaction, besides gaps.
	batch = 256
	// maxOwners is the maximum number of owners that missing records are counted for at a time.
	maxOwners = 4096
	// gapEvery is the least time between two records of gaps, unless somebody waits for them.
	gapEvery = time.Second
	// retryEvery is the time between two attempts if the store fails, writeTimeout the timeout
	// of one.
	retryEvery   = time.Second
	writeTimeout = 10 * time.Second
)

// Writer writes records of type R, whose owners are of type O. Make one with New, and close it. Its
// methods may be called from several goroutines.
type Writer[R any, O comparable] struct {
	cfg  Config[R, O]
	wake chan struct{} // something is queued
	// urgent ends the wait for other records: somebody waits, or the queue is half full.
	urgent  chan struct{}
	flushes chan chan struct{}
	closing chan struct{}
	done    chan struct{} // the goroutine has ended
	cancel  context.CancelFunc

	mu     sync.Mutex
	closed bool
	queue  []R
	missed map[O]int
	lost   int // records that are in no gap either
	gapAt  time.Time

	// Only the goroutine uses these.
	failing bool
	last    bool // the writer is closed: the next failure is the last
	gaveUp  bool // that one was, or the context of Close has ended
}

// New creates a writer and starts it.
func New[R any, O comparable](cfg Config[R, O]) *Writer[R, O] {
	cfg.Queue = cmp.Or(cfg.Queue, 4096)
	cfg.Delay = cmp.Or(cfg.Delay, 100*time.Millisecond)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Weight == nil {
		cfg.Weight = func(R) int { return 1 }
	}
	if cfg.Stored == nil {
		cfg.Stored = func(context.Context, []R) {}
	}
	if cfg.Round == nil {
		cfg.Round = func(context.Context, bool) bool { return false }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &Writer[R, O]{
		cfg: cfg, cancel: cancel, missed: map[O]int{},
		wake: make(chan struct{}, 1), urgent: make(chan struct{}, 1), flushes: make(chan chan struct{}), closing: make(chan struct{}), done: make(chan struct{}),
	}
	go func() {
		defer close(w.done)
		w.run(ctx)
	}()
	return w
}

// signal sets a flag that a goroutine waits for.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Add queues a record. It does not block. One that has no place in the queue is missed, and one
// that comes after Close is lost.
func (w *Writer[R, O]) Add(r R) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed && len(w.queue) < w.cfg.Queue {
		w.queue = append(w.queue, r)
		signal(w.wake)
		if len(w.queue) >= w.cfg.Queue/2 {
			signal(w.urgent)
		}
		return
	}
	w.miss(r)
}

// Miss counts a record that is not to be stored.
func (w *Writer[R, O]) Miss(r R) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.miss(r)
}

// miss is Miss of the holder of the lock.
func (w *Writer[R, O]) miss(r R) {
	o, n := w.cfg.Owner(r), w.cfg.Weight(r)
	if _, known := w.missed[o]; w.closed || !known && len(w.missed) >= maxOwners {
		w.lost += n
		return
	}
	w.missed[o] += n
	signal(w.wake)
}

// Hurry makes what was added be stored without waiting for other records.
func (w *Writer[R, O]) Hurry() { signal(w.urgent) }

// Flush returns when what was added and missed before is stored, so that a reader of the store sees
// it, or with the error of ctx. After Close it returns nil.
func (w *Writer[R, O]) Flush(ctx context.Context) error {
	signal(w.urgent)
	flushed := make(chan struct{})
	select {
	case w.flushes <- flushed:
	case <-w.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-flushed:
	case <-w.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// Close stores what is queued, for as long as ctx allows, and ends the writer. Records that come
// later are lost. The error says how many were lost since the writer was made.
func (w *Writer[R, O]) Close(ctx context.Context) error {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.closing)
	}
	w.mu.Unlock()
	select {
	case <-w.done:
	case <-ctx.Done():
		w.cancel()
		<-w.done
	}
	w.cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost > 0 {
		return api.Errorf(api.KindInternal, "%d %s were not recorded", w.lost, w.cfg.What)
	}
	return nil
}

// Limits has a token bucket for each key. Its methods may be called from several goroutines.
type Limits[K comparable] struct {
	each  rate.Limit
	burst int

	mu      sync.Mutex
	buckets map[K]*rate.Limiter
	sweepAt int
}

// leastSweep is the number of buckets from which on full ones are removed.
const leastSweep = 1024

// NewLimits returns limits of a number a second for each key, and of a burst.
func NewLimits[K comparable](perSecond float64, burst int) *Limits[K] {
	return &Limits[K]{each: rate.Limit(perSecond), burst: burst, buckets: map[K]*rate.Limiter{}, sweepAt: leastSweep}
}

// Allow takes a token of a key. It returns false if there is none.
func (l *Limits[K]) Allow(key K, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[key]
	if b == nil {
		if len(l.buckets) >= l.sweepAt {
			l.sweep(now)
		}
		b = rate.NewLimiter(l.each, l.burst)
		l.buckets[key] = b
	}
	return b.AllowN(now, 1)
}

// sweep removes the buckets that are full, which are like new ones. The next sweep is due when
// there are twice as many as remain, so that its cost is shared by as many new keys.
func (l *Limits[K]) sweep(now time.Time) {
	for key, b := range l.buckets {
		if b.TokensAt(now) >= float64(l.burst) {
			delete(l.buckets, key)
		}
	}
	l.sweepAt = max(leastSweep, 2*len(l.buckets))
}

// run stores what is queued until the writer is closed.
func (w *Writer[R, O]) run(ctx context.Context) {
	var again <-chan time.Time // when a gap, or more of a round, is due
	for closing := false; !closing; {
		var flushed chan struct{}
		select {
		case <-w.wake:
			closing, flushed = w.gather()
		case flushed = <-w.flushes:
		case <-again:
		case <-w.closing:
			closing = true
		}
		for all := w.take(closing || flushed != nil); len(all) > 0; all = w.take(closing || flushed != nil) {
			w.write(ctx, all)
		}
		again = nil
		if more := w.cfg.Round(ctx, closing); more || w.pending() {
			again = time.After(gapEvery)
		}
		if flushed != nil {
			close(flushed)
		}
	}
}

// gather waits for more records. It returns whether the writer was closed or somebody waits meanwhile.
func (w *Writer[R, O]) gather() (closing bool, flushed chan struct{}) {
	delay := time.NewTimer(w.cfg.Delay)
	defer delay.Stop()
	select {
	case <-delay.C:
	case <-w.urgent:
	case flushed = <-w.flushes:
	case <-w.closing:
		return true, nil
	}
	return false, flushed
}

// pending reports whether a gap is not stored yet.
func (w *Writer[R, O]) pending() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.missed) > 0
}

// take returns the next records to store. The gaps come last, if they are due or now is true.
func (w *Writer[R, O]) take(now bool) []R {
	at := w.cfg.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.queue), batch)
	all := append([]R(nil), w.queue[:n]...)
	if w.queue = w.queue[n:]; len(w.queue) > 0 {
		return all
	}
	w.queue = nil // release the memory of a flood
	if len(w.missed) == 0 || !now && at.Sub(w.gapAt).Abs() < gapEvery {
		return all
	}
	w.gapAt = at
	for o, n := range w.missed {
		all = append(all, w.cfg.Gap(o, n, at))
	}
	clear(w.missed)
	return all
}

// write stores records, and retries until it succeeds or the writer is closed. Records that come
// meanwhile are queued, and missed when the queue is full.
func (w *Writer[R, O]) write(ctx context.Context, all []R) {
	for {
		if w.gaveUp {
			w.lose(all)
			return
		}
		err := w.insert(ctx, all)
		switch {
		case err == nil:
			if w.failing {
				w.failing = false
				w.cfg.Logger.Info(w.cfg.What + " are recorded again")
			}
			w.cfg.Stored(ctx, all)
			return
		case api.KindOf(err) == api.KindInvalid && len(all) > 1:
			for i := range all { // one of them is a defect; keep the others
				w.write(ctx, all[i:i+1])
			}
			return
		case api.KindOf(err) == api.KindInvalid:
			w.cfg.Logger.Error("one of the "+w.cfg.What+" cannot be recorded", "owner", w.cfg.Owner(all[0]), "error", err)
			w.lose(all)
			return
		case w.last:
			w.gaveUp = true
			w.lose(all)
			return
		case !w.failing:
			w.failing = true
			w.cfg.Logger.Error(w.cfg.What+" cannot be recorded; retrying", "error", err)
		}
		select {
		case <-time.After(retryEvery):
		case <-ctx.Done():
			w.gaveUp = true
		case <-w.closing:
			w.last = true
		}
	}
}

// insert stores records within writeTimeout.
func (w *Writer[R, O]) insert(ctx context.Context, all []R) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return w.cfg.Insert(ctx, all)
}

// lose counts records that are not stored.
func (w *Writer[R, O]) lose(all []R) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range all {
		w.lost += w.cfg.Weight(r)
	}
}
