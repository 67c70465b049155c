package records

import (
	"context"
	"time"

	"hortus.dev/api"
)

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
