package broker

import (
	"fmt"
	"sync"
	"time"
)

const (
	// maxBroken is how many answers servers that have secrets may break off in brokenTime before it is an
	// alarm: a program that has a server repeat what it gets could try to learn something from each.
	maxBroken  = 16
	brokenTime = time.Minute
)

// breaks counts the answers of a session that servers broke off, and limits their records.
type breaks struct {
	limiter
	mu    sync.Mutex
	since time.Time
	n     int
}

// alarm counts an answer. It returns true for the one that is too many.
func (b *breaks) alarm(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d := now.Sub(b.since); d < 0 || d >= brokenTime {
		b.since, b.n = now, 0
	}
	b.n++
	return b.n == maxBroken+1
}

// broke records that the server broke its answer off.
func (f *flight) broke(status int, received int64) {
	u := f.use()
	u.Broken, u.Status, u.Received = true, status, received
	if u.Secret == "" {
		u.Secret = f.about
	}
	// A row that would stand for those above the limit says nothing: the alarm does.
	if row := u; f.s.breaks.allow(f.s.broker.cfg.Now(), maxOvers, &row) && row.Refused == "" {
		f.s.record(u)
	}
	if f.s.breaks.alarm(f.s.broker.cfg.Now()) {
		u.Refused = fmt.Sprintf("servers broke off more than %d answers in %v: a program may be trying to read the secret from what arrives", maxBroken, brokenTime)
		f.s.record(u)
	}
}
