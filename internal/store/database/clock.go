package database

import (
	"context"
	"sync"
	"time"
)

// maxSlide is how far the clock of a server may move from that of this process between two looks. What moves it further is a person, or another server.
const maxSlide = time.Second

// clock is the clock of a database server, as this process knows it: it goes with the monotonic clock of this process, and is corrected each time the server says what time
// it is. What the clock of this machine says does not matter.
type clock struct {
	start time.Time

	mu sync.Mutex
	// ahead is how far the server is ahead of start and the time since then. set is when that changed by more than maxSlide; zero if it never did.
	ahead time.Duration
	set   time.Time
}

// now is the time of the server. It has a reading of the monotonic clock, as that of time.Now has.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.start.Add(time.Since(c.start) + c.ahead)
}

// seen corrects the clock by a time that the server read after sent and before now. It changes it no more than is needed to agree with that.
func (c *clock) seen(micros int64, sent time.Time) {
	now, at := time.Now(), time.UnixMicro(micros).Sub(c.start.Round(0)) // the wall clock's start
	least, most := at-now.Sub(c.start), at-sent.Sub(c.start)+time.Microsecond
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.ahead
	if c.ahead = min(max(was, least), most); (c.ahead - was).Abs() > maxSlide {
		c.set = now
	}
}

// steady reports whether the clock was not set during the last d.
func (c *clock) steady(d time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.set.IsZero() || time.Since(c.set) > d
}

// Now implements store.Store.
func (db *DB) Now() time.Time {
	if db.clock == nil {
		return time.Now()
	}
	return db.clock.now()
}

// readClock reads the clock of a server for the first time.
func (db *DB) readClock(ctx context.Context) error {
	sent, micros := time.Now(), int64(0)
	if err := db.read.QueryRowContext(ctx, `SELECT now_micros()`).Scan(&micros); err != nil {
		return wrapError(ctx, err, "read the clock of the database")
	}
	db.clock.seen(micros, sent)
	return nil
}
