package quota

import (
	"cmp"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"hortus.dev/api"
)

// Defaults of the rates of one key, a second. The measured maximum of one SDK client is
// a few hundred requests a second.
const (
	DefaultRequestRate = 1000
	DefaultCreateRate  = 200
)

// RatesConfig bounds how often a key may ask, a second. Zero fields take the defaults.
type RatesConfig struct {
	// Requests bounds all requests, and the commands that are started over the data
	// plane of the key's sandboxes. Creates bounds new sandboxes, children of forks
	// included, snapshots, templates and tasks.
	Requests, Creates float64
	Now               func() time.Time
}

// Rates bounds how often each user's key may ask, by token buckets: twice the rate of
// requests at once, five times that of creates. Who speaks over the daemon's own socket
// has no key, and an admin's key is the operator's: neither is bounded,
// but for [Rates.Command].
type Rates struct {
	cfg RatesConfig

	mu sync.Mutex
	// keys has an entry for each key that was verified and used: as many as an admin
	// has made.
	keys map[api.KeyID]*buckets
}

type buckets struct{ requests, creates *rate.Limiter }

// NewRates makes the buckets of all keys.
func NewRates(cfg RatesConfig) *Rates {
	cfg.Requests = cmp.Or(cfg.Requests, DefaultRequestRate)
	cfg.Creates = cmp.Or(cfg.Creates, DefaultCreateRate)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Rates{cfg: cfg, keys: map[api.KeyID]*buckets{}}
}

func (r *Rates) of(key api.KeyID) *buckets {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.keys[key]
	if b == nil {
		b = &buckets{
			requests: rate.NewLimiter(rate.Limit(r.cfg.Requests), max(1, int(2*r.cfg.Requests))),
			// One fork must fit.
			creates: rate.NewLimiter(rate.Limit(r.cfg.Creates), max(api.MaxForks, int(5*r.cfg.Creates))),
		}
		r.keys[key] = b
	}
	return b
}

func bounded(p api.Principal) bool { return p.Key != "" && p.Role != api.RoleAdmin }

// Request takes one request of a caller.
func (r *Rates) Request(p api.Principal) error {
	if !bounded(p) {
		return nil
	}
	return r.take(r.of(p.Key).requests, 1, "requests")
}

// Create takes what a caller is about to create.
func (r *Rates) Create(p api.Principal, n int) error {
	if !bounded(p) {
		return nil
	}
	return r.take(r.of(p.Key).creates, n, "creates")
}

// Command takes one command in a sandbox of a key, "" for the operator's own, that is
// started without showing the key. Whose key it is is not known here, so that an
// admin's is bounded too.
func (r *Rates) Command(key api.KeyID) error {
	if key == "" {
		return nil
	}
	return r.take(r.of(key).requests, 1, "requests")
}

// take takes n tokens, or returns KindExhausted with the time to wait for them.
func (r *Rates) take(l *rate.Limiter, n int, what string) error {
	now := r.cfg.Now()
	res := l.ReserveN(now, n)
	wait := res.DelayFrom(now)
	if wait == 0 {
		return nil
	}
	res.CancelAt(now)
	e := api.Errorf(api.KindExhausted, "too many %s with this API key: the maximum is %g per second", what, float64(l.Limit())).
		WithHint("retry after the time in Retry-After; the operator sets the rate")
	e.RetryAfterMS = max(1, wait.Milliseconds())
	return e
}
