package sqlite

import (
	"context"
	"database/sql"
	"time"
)

// arm has run called once, after a while. The caller holds the lock.
func (a *ahead) arm(after time.Duration) {
	if !a.armed && a.file != nil {
		a.armed = true
		a.wg.Add(1)
		a.timer.Reset(after)
	}
}

// rest has run called once no row has come for a while. The caller holds the lock.
func (a *ahead) rest() {
	switch now := time.Now(); {
	case !a.armed:
		a.arm(aheadRest)
		a.due = now.Add(aheadMost)
	case a.due.IsZero(): // it waits after an error
	case a.timer.Stop(): // else it runs now
		a.timer.Reset(min(aheadRest, a.due.Sub(now)))
	}
}

func (a *ahead) run() {
	defer a.wg.Done()
	a.mu.Lock()
	a.armed, a.due = false, time.Time{}
	a.mu.Unlock()
	if err := a.settle(context.Background()); err != nil {
		a.log.Error("rows that are stored did not get into the database; trying again", "error", err)
		a.mu.Lock()
		a.arm(aheadRetry)
		a.mu.Unlock()
	}
}

// settle has everything in the database that was stored before the call.
func (a *ahead) settle(ctx context.Context) error {
	if a == nil || a.waiting.Load() == 0 {
		return nil
	}
	a.applying.Lock()
	defer a.applying.Unlock()
	a.mu.Lock()
	batch := a.queue
	a.queue, a.place = nil, map[rowKey]int{}
	// A file that has grown has to become empty some time: writers wait for it.
	long := a.size >= aheadBytes
	if !long {
		a.mu.Unlock()
	}
	err := a.apply(ctx, batch)
	if !long {
		a.mu.Lock()
	}
	defer a.mu.Unlock()
	if err != nil {
		later := a.queue
		a.queue, a.place = batch, map[rowKey]int{}
		for i, r := range batch {
			a.place[r.key()] = i
		}
		a.waiting.Add(-int64(len(later)))
		a.arm(aheadRetry)
		for _, r := range later {
			a.enqueue(r)
		}
		return err
	}
	a.waiting.Add(-int64(len(batch)))
	if len(a.queue) == 0 && a.file != nil {
		a.clear()
	}
	return nil
}

// apply commits rows in one transaction. What the database refuses, which put
// should have known, is reported and left out.
func (a *ahead) apply(ctx context.Context, batch []record) error {
	if len(batch) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), aheadTimeout)
	defer cancel()
	return a.db.inTx(ctx, "rows", func(tx *sql.Tx) error {
		for _, r := range batch {
			if err := r.run(ctx, tx, a.db); err != nil {
				if !r.refused(err) {
					return failed(ctx, err, "store %s %s", r.what(), r.id())
				}
				a.log.Error("a row that was stored is refused by the database", "row", r.what(), "id", r.id(), "error", err)
			}
		}
		return nil
	})
}
