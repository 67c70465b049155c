package records

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

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
