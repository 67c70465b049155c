package audit

import (
	"time"

	"golang.org/x/time/rate"
)

// limits has a token bucket for each key. It is not safe for concurrent use.
type limits[K comparable] struct {
	each    rate.Limit
	burst   int
	buckets map[K]*rate.Limiter
}

func newLimits[K comparable](perSecond float64, burst int) limits[K] {
	return limits[K]{each: rate.Limit(perSecond), burst: burst, buckets: map[K]*rate.Limiter{}}
}

// sweepAt is the number of buckets from which on full ones are removed.
const sweepAt = 1024

// allow takes a token of a key.
func (l *limits[K]) allow(key K, now time.Time) bool {
	b := l.buckets[key]
	if b == nil {
		b = rate.NewLimiter(l.each, l.burst)
		l.buckets[key] = b
	}
	return b.AllowN(now, 1)
}

// sweep removes the buckets that are full, which are like new ones.
func (l *limits[K]) sweep(now time.Time) {
	if len(l.buckets) < sweepAt {
		return
	}
	for key, b := range l.buckets {
		if b.TokensAt(now) >= float64(l.burst) {
			delete(l.buckets, key)
		}
	}
}
