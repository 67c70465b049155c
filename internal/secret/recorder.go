package secret

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/egress/audit"
)

// Limits are the maximum rates, in numbers a second, with bursts. Zero fields mean the defaults.
type Limits struct {
	// Sandbox limits the records of a sandbox, and apart from them those of its refused uses, so
	// that a flood of these does not hide a use (default 100, 2000).
	Sandbox, SandboxBurst int
	// Alarms limits the warnings in the log about a sandbox (default 1, 20).
	Alarms, AlarmsBurst int
}

func (l Limits) orDefaults() Limits {
	return Limits{cmp.Or(l.Sandbox, 100), cmp.Or(l.SandboxBurst, 2000), cmp.Or(l.Alarms, 1), cmp.Or(l.AlarmsBurst, 20)}
}

// Maximum sizes of what is recorded of one use, in bytes.
const (
	maxText     = 1 << 10
	maxWord     = 64
	maxCommands = 8
	maxCommand  = 256
)

const (
	// batch is the maximum number of uses of one transaction.
	batch = 256
	// delay is how long a use waits for others, to be stored with them.
	delay = 100 * time.Millisecond
	// retryEvery is the time between two attempts if the store fails, writeTimeout the timeout of
	// one.
	retryEvery   = time.Second
	writeTimeout = 10 * time.Second
	// flushWait is the maximum time that a list waits for records that are not stored yet.
	flushWait = 5 * time.Second
	// maxPeers is the maximum number of sandboxes and secrets that missed uses are counted for.
	maxPeers = 4096
)

// peer is whose use was not recorded.
type peer struct {
	account, secret string
	sandbox         api.SandboxID
	task            api.TaskID
}

// kindOfUse has a limit of its own.
type kindOfUse struct {
	sandbox api.SandboxID
	refused bool
}

// recorder writes records of uses to the store in batches.
type recorder struct {
	cfg     Config
	wake    chan struct{} // something is queued
	flushes chan chan struct{}
	closing chan struct{}
	done    chan struct{} // the goroutine has ended
	cancel  context.CancelFunc

	mu         sync.Mutex
	closed     bool
	queue      []secrets.Use
	missed     map[peer]int
	lost       int // uses without any record
	records    map[kindOfUse]*rate.Limiter
	alarms     map[api.SandboxID]*rate.Limiter
	suppressed int // warnings

	failing bool // only the goroutine uses it
}

func newRecorder(cfg Config) *recorder {
	ctx, cancel := context.WithCancel(context.Background())
	r := &recorder{
		cfg: cfg, cancel: cancel, wake: make(chan struct{}, 1), flushes: make(chan chan struct{}), closing: make(chan struct{}), done: make(chan struct{}),
		missed: map[peer]int{}, records: map[kindOfUse]*rate.Limiter{}, alarms: map[api.SandboxID]*rate.Limiter{},
	}
	go func() {
		defer close(r.done)
		r.run(ctx)
	}()
	return r
}

// Record records a use of a secret, or a placeholder where it may not be, which is an alarm. It does
// not block. A use without a time gets the present one. What cannot be recorded is counted, and the
// number is a record of its own.
func (s *Secrets) Record(ctx context.Context, u secrets.Use) {
	r := s.uses
	u, now := sanitize(u), s.now()
	if u.Seq = 0; u.At.IsZero() {
		u.At = now
	}
	s.cfg.Count(u)
	alarm, suppressed := r.add(u, now)
	if alarm {
		s.cfg.Logger.WarnContext(ctx, "a secret was not sent: its placeholder is where it may not be", "secret", u.Secret, "account", u.Account,
			"sandbox", u.Sandbox, "task", u.Task, "request", u.Method+" "+u.Scheme+"://"+u.Host+u.Path, "reason", u.Refused, "suppressed", suppressed)
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// add queues a use. alarm is whether a warning is due, suppressed the number of those that were
// not written since the last one.
func (r *recorder) add(u secrets.Use, now time.Time) (alarm bool, suppressed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.cfg.Limits
	if u.Alarm() {
		if alarm = allow(r.alarms, u.Sandbox, l.Alarms, l.AlarmsBurst, now); alarm {
			suppressed, r.suppressed = r.suppressed, 0
		} else {
			r.suppressed++
		}
	}
	switch {
	case r.closed:
		r.lost++
	case len(r.queue) >= r.cfg.Queue || !allow(r.records, kindOfUse{u.Sandbox, u.Refused != ""}, l.Sandbox, l.SandboxBurst, now):
		r.miss(u, 1)
	default:
		r.queue = append(r.queue, u)
	}
	return alarm, suppressed
}

// allow takes a token of a key. Buckets that are full, which are like new ones, are removed when
// there are many.
func allow[K comparable](buckets map[K]*rate.Limiter, key K, perSecond, burst int, now time.Time) bool {
	b := buckets[key]
	if b == nil {
		if len(buckets) >= maxPeers {
			for k, other := range buckets {
				if other.TokensAt(now) >= float64(burst) {
					delete(buckets, k)
				}
			}
		}
		b = rate.NewLimiter(rate.Limit(perSecond), burst)
		buckets[key] = b
	}
	return b.AllowN(now, 1)
}

// miss counts uses that are not recorded. The caller holds the lock.
func (r *recorder) miss(u secrets.Use, n int) {
	p := peer{u.Account, u.Secret, u.Sandbox, u.Task}
	if _, known := r.missed[p]; !known && len(r.missed) >= maxPeers {
		r.lost += n
		return
	}
	r.missed[p] += n
}

// sanitize returns a use whose text can be stored and shown on a terminal. The query of a path is
// removed: it may have other credentials.
func sanitize(u secrets.Use) secrets.Use {
	if i := strings.IndexAny(u.Path, "?#"); i >= 0 {
		u.Path = u.Path[:i]
	}
	if u.Usage != nil {
		usage := *u.Usage
		u.Usage = &usage
		u.Usage.Model = audit.Text(usage.Model, maxText)
	}
	for _, word := range []*string{&u.Secret, &u.Scheme, &u.Method, &u.Budget} {
		*word = audit.Text(*word, maxWord)
	}
	for _, text := range []*string{&u.Refused, &u.Host, &u.Path} {
		*text = audit.Text(*text, maxText)
	}
	if u.Commands != nil {
		commands := make([]string, min(len(u.Commands), maxCommands))
		for i := range commands {
			commands[i] = audit.Text(u.Commands[i], maxCommand)
		}
		u.Commands = commands
	}
	return u
}

// run stores what is queued until the recorder is closed.
func (r *recorder) run(ctx context.Context) {
	for closing := false; !closing; {
		var flushed chan struct{}
		select {
		case <-r.wake:
			t := time.NewTimer(delay)
			select {
			case <-t.C:
			case flushed = <-r.flushes:
			case <-r.closing:
				closing = true
			}
			t.Stop()
		case flushed = <-r.flushes:
		case <-r.closing:
			closing = true
		}
		for all := r.take(); len(all) > 0; all = r.take() {
			r.write(ctx, all)
		}
		if flushed != nil {
			close(flushed)
		}
	}
}

// take returns the next uses to store. Those that were missed come last, one row for each peer.
func (r *recorder) take() []secrets.Use {
	now := r.cfg.Now().UTC()
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.queue), batch)
	all := append([]secrets.Use(nil), r.queue[:n]...)
	if r.queue = r.queue[n:]; len(r.queue) > 0 {
		return all
	}
	r.queue = nil // release the memory of a flood
	for p, n := range r.missed {
		all = append(all, secrets.Use{At: now, Secret: p.secret, Account: p.account, Sandbox: p.sandbox, Task: p.task, Missed: n,
			Refused: fmt.Sprintf("%d uses were not recorded: too many at once, or the store failed", n)})
	}
	clear(r.missed)
	return all
}

// write stores uses, and retries until it succeeds or the recorder is closed. Uses that come
// meanwhile are queued, and counted when the queue is full.
func (r *recorder) write(ctx context.Context, all []secrets.Use) {
	for closing := false; ; {
		err := r.insert(ctx, all)
		switch {
		case err == nil:
			if r.failing {
				r.failing = false
				r.cfg.Logger.Info("uses of secrets are recorded again")
			}
			return
		case api.KindOf(err) == api.KindInvalid && len(all) > 1:
			for i := range all { // one of them is a defect; keep the others
				r.write(ctx, all[i:i+1])
			}
			return
		case api.KindOf(err) == api.KindInvalid || closing || ctx.Err() != nil:
			r.cfg.Logger.Error("cannot record uses of secrets", "uses", len(all), "error", err)
			r.lose(all)
			return
		case !r.failing:
			r.failing = true
			r.cfg.Logger.Error("cannot record uses of secrets; retrying", "error", err)
		}
		select {
		case <-time.After(retryEvery):
		case <-ctx.Done():
		case <-r.closing:
			closing = true
		}
	}
}

func (r *recorder) insert(ctx context.Context, all []secrets.Use) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return r.cfg.Rows.InsertSecretUses(ctx, all)
}

// lose counts uses that have no record.
func (r *recorder) lose(all []secrets.Use) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range all {
		r.lost += max(u.Missed, 1)
	}
}

// flush returns when what was recorded before is stored, or with the error of ctx. If the store
// fails, it returns after flushWait: a list of secrets does not wait for the records.
func (r *recorder) flush(ctx context.Context) error {
	flushed := make(chan struct{})
	late := time.NewTimer(flushWait)
	defer late.Stop()
	select {
	case r.flushes <- flushed:
	case <-r.done:
		return nil
	case <-late.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-flushed:
	case <-r.done:
	case <-late.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// close stores what is queued, for as long as ctx allows, and ends the goroutine.
func (r *recorder) close(ctx context.Context) error {
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
		return api.Errorf(api.KindInternal, "%d uses of secrets were not recorded", r.lost)
	}
	return nil
}
