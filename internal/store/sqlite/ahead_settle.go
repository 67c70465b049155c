package sqlite

import (
	"context"
	"database/sql"
	"time"
)

// schedule calls flushLater once, after a delay. The caller holds the lock.
func (a *ahead) schedule(after time.Duration) {
	if !a.scheduled && a.file != nil {
		a.scheduled = true
		a.timerRuns.Add(1)
		a.timer.Reset(after)
	}
}

// scheduleFlush flushes flushDelay after the last row, at most maxFlushDelay after the
// first. The caller holds the lock.
func (a *ahead) scheduleFlush() {
	switch now := time.Now(); {
	case !a.scheduled:
		a.schedule(flushDelay)
		a.deadline = now.Add(maxFlushDelay)
	case a.deadline.IsZero(): // waiting to retry
	case a.timer.Stop(): // otherwise it runs now
		a.timer.Reset(min(flushDelay, a.deadline.Sub(now)))
	}
}

func (a *ahead) flushLater() {
	defer a.timerRuns.Done()
	a.mu.Lock()
	a.scheduled, a.deadline = false, time.Time{}
	a.mu.Unlock()
	if err := a.flush(context.Background()); err != nil {
		a.log.Error("flushing rows to the database failed; retrying", "error", err)
		a.mu.Lock()
		a.schedule(flushRetry)
		a.mu.Unlock()
	}
}

// flush commits every row that was stored before the call to the database.
func (a *ahead) flush(ctx context.Context) error {
	if a == nil || a.pending.Load() == 0 {
		return nil
	}
	a.applying.Lock()
	defer a.applying.Unlock()
	a.mu.Lock()
	batch := a.queue
	a.queue, a.position = nil, map[rowKey]int{}
	// A file that exceeds its maximum must be emptied, so writers wait for this flush.
	long := a.size >= maxAheadFile
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
		a.queue, a.position = batch, map[rowKey]int{}
		for i, r := range batch {
			a.position[r.key()] = i
		}
		a.pending.Add(-int64(len(later)))
		a.schedule(flushRetry)
		for _, r := range later {
			a.enqueue(r)
		}
		return err
	}
	a.pending.Add(-int64(len(batch)))
	if len(a.queue) == 0 && a.file != nil {
		a.truncate()
	}
	return nil
}

// apply commits rows in one transaction. A row that the database refuses, which accepts
// should have prevented, is logged and dropped.
func (a *ahead) apply(ctx context.Context, batch []record) error {
	if len(batch) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	return a.db.inTx(ctx, "rows", func(tx *sql.Tx) error {
		for _, r := range batch {
			if err := r.run(ctx, tx, a.db); err != nil {
				if !r.isRefusal(err) {
					return wrapError(ctx, err, "store %s %s", r.kind(), r.id())
				}
				a.log.Error("the database rejected a row that was stored ahead", "row", r.kind(), "id", r.id(), "error", err)
			}
		}
		return nil
	})
}
