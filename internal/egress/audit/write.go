package audit

import (
	"context"
	"fmt"
	"time"

	"hortus.dev/api"
)

const (
	// batch is the maximum number of decisions of one transaction.
	batch = 256
	// gapEvery is the least time between two records of gaps.
	gapEvery = time.Second
	// retryEvery is the time between two attempts if the store fails, writeTimeout the
	// timeout of one.
	retryEvery   = time.Second
	writeTimeout = 10 * time.Second
)

// run writes what is queued until the recorder is closed.
func (r *Recorder) run(ctx context.Context) {
	var gap <-chan time.Time // when a gap can be recorded
	for closing := false; !closing; {
		var flushed chan struct{}
		select {
		case <-r.wake:
			closing = r.gather()
		case flushed = <-r.flushes:
		case <-gap:
		case <-r.closing:
			closing = true
		}
		for {
			all := r.take(closing)
			if len(all) == 0 {
				break
			}
			r.write(ctx, all)
			r.tellSuppressed(ctx, false)
		}
		r.tellSuppressed(ctx, closing)
		gap = nil
		if r.pending() {
			gap = time.After(gapEvery)
		}
		if flushed != nil {
			close(flushed)
		}
	}
}

// gather waits for more decisions. It returns true if the recorder is closed.
func (r *Recorder) gather() bool {
	delay := time.NewTimer(r.cfg.Delay)
	defer delay.Stop()
	select {
	case <-delay.C:
	case <-r.urgent:
	case <-r.closing:
		return true
	}
	return false
}

// pending reports whether a gap is not recorded yet.
func (r *Recorder) pending() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.dropped) > 0 || len(r.suppressed) > 0
}

// take returns the next decisions to store, with the gaps if they are due.
func (r *Recorder) take(closing bool) []api.EgressDecision {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records.sweep(now)
	r.accounts.sweep(now)
	n := min(len(r.queue), batch)
	all := append([]api.EgressDecision(nil), r.queue[:n]...)
	if r.queue = r.queue[n:]; len(r.queue) == 0 {
		r.queue = nil // release the memory of a flood
	}
	if len(r.dropped) == 0 || !closing && now.Sub(r.gapAt).Abs() < gapEvery {
		return all
	}
	r.gapAt = now
	for p, n := range r.dropped {
		g := gapOf(p, n, now)
		g.Reason = fmt.Sprintf("%d decisions were not recorded: too many at once, or the store failed", n)
		r.cfg.Count(g)
		all = append(all, g)
	}
	clear(r.dropped)
	return all
}

// gapOf returns the record of n decisions that are missing.
func gapOf(p peer, n int, at time.Time) api.EgressDecision {
	return api.EgressDecision{At: at, Account: p.account, Sandbox: p.sandbox, Task: p.task, Op: api.EgressOpGap, Result: api.EgressDropped, Count: n}
}

// write stores decisions, and retries until it succeeds or the recorder is closed. Decisions that
// come meanwhile are queued, and dropped when the queue is full.
func (r *Recorder) write(ctx context.Context, all []api.EgressDecision) {
	for {
		if r.gaveUp {
			r.lose(all)
			return
		}
		err := r.insert(ctx, all)
		if err == nil {
			if r.failing {
				r.failing = false
				r.log.Info("decisions about outgoing connections are recorded again")
			}
			r.tell(ctx, all)
			return
		}
		if api.KindOf(err) == api.KindInvalid {
			if len(all) == 1 {
				r.log.Error("cannot record a decision about an outgoing connection", "sandbox", all[0].Sandbox, "error", err)
				r.lose(all)
				return
			}
			for i := range all { // one of them is a defect; keep the others
				r.write(ctx, all[i:i+1])
			}
			return
		}
		if !r.failing {
			r.failing = true
			r.log.Error("cannot record decisions about outgoing connections; retrying", "error", err)
		}
		select {
		case <-time.After(retryEvery):
		case <-ctx.Done():
			r.lose(all)
			return
		case <-r.closing:
			if err := r.insert(ctx, all); err != nil {
				r.gaveUp = true
				continue
			}
			r.tell(ctx, all)
			return
		}
	}
}

// insert stores decisions within writeTimeout.
func (r *Recorder) insert(ctx context.Context, all []api.EgressDecision) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return r.cfg.Store.InsertEgress(ctx, all)
}

// lose counts decisions that have no record.
func (r *Recorder) lose(all []api.EgressDecision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range all {
		r.lost += weight(d)
	}
}

// tell appends decisions to the logs of their sandboxes.
func (r *Recorder) tell(ctx context.Context, all []api.EgressDecision) {
	if r.cfg.Events == nil {
		return
	}
	now := r.now()
	r.events.sweep(now)
	for _, d := range all {
		if d.Result == api.EgressAllowed && d.Op != api.EgressOpAnswer {
			continue
		}
		if forPerson(d) || r.events.allow(d.Sandbox, now) {
			r.append(ctx, d)
			continue
		}
		if p := (peer{d.Account, d.Sandbox, d.Task}); len(r.suppressed) < maxPeers || r.suppressed[p] > 0 {
			r.suppressed[p] += weight(d)
		}
	}
}

// tellSuppressed appends to each log how many decisions it lacks, as soon as its limit allows.
func (r *Recorder) tellSuppressed(ctx context.Context, closing bool) {
	now := r.now()
	for p, n := range r.suppressed {
		if closing || r.events.allow(p.sandbox, now) {
			g := gapOf(p, n, now)
			g.Reason = fmt.Sprintf("%d more decisions are in the records only", n)
			r.append(ctx, g)
			delete(r.suppressed, p)
		}
	}
}

func (r *Recorder) append(ctx context.Context, d api.EgressDecision) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err := r.cfg.Events.Append(ctx, api.Stream{Kind: api.StreamSandbox, ID: string(d.Sandbox)}, api.EventEgress, d)
	if err != nil {
		r.log.Error("cannot append a decision to the log of its sandbox", "sandbox", d.Sandbox, "error", err)
	}
}
