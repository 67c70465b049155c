package admission

import (
	"context"
	"errors"
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
)

// join puts a request at the end of its account's line. The caller holds the lock.
func (g *Gate) join(req sandbox.Need) (*waiter, error) {
	l := g.lines[req.Account]
	if l != nil && len(l.waiters) >= maxLine || g.queued >= maxWaiting {
		return nil, g.exhausted(api.Errorf(api.KindExhausted, "the host is full, and the queue is full: %d are waiting", g.queued), g.queued, g.short(req).cause())
	}
	if l == nil {
		l = &line{account: req.Account}
		g.lines[req.Account] = l
		g.ring = append(g.ring, l)
	}
	w := &waiter{req: req, line: l, since: time.Now(), ended: make(chan struct{})}
	l.waiters = append(l.waiters, w)
	g.queued++
	g.dispatch() // it may lack nothing that those before it lack
	select {
	case g.hurry <- struct{}{}:
	default: // the host is about to be looked at
	}
	return w, nil
}

// dispatch lets in anyone who can be. The caller holds the lock.
func (g *Gate) dispatch() {
	for g.grant() {
	}
}

// grant lets in the next in turn, or one whose turn is later and who wants nothing
// of what those before it lack.
func (g *Gate) grant() bool {
	var lacking shortage
	for i, l := range g.ring {
		w := l.waiters[0]
		short := g.short(w.req)
		if short == 0 && lacking&needs(w.req) == 0 {
			g.drop(i, 0)
			if l := g.lines[w.req.Account]; l != nil { // others of it wait: after everybody else
				g.ring = append(slices.Delete(g.ring, i, i+1), l)
			}
			w.release = g.take(w.req)
			close(w.ended)
			return true
		}
		if lacking |= short; lacking&ofAll != 0 {
			return false
		}
	}
	return false
}

// drop takes the k-th waiter out of the i-th line, and the line out of the ring when
// it was the last.
func (g *Gate) drop(i, k int) {
	l := g.ring[i]
	l.waiters = slices.Delete(l.waiters, k, k+1)
	g.queued--
	if len(l.waiters) == 0 {
		delete(g.lines, l.account)
		g.ring = slices.Delete(g.ring, i, i+1)
	}
}

// wait waits for a waiter's turn.
func (g *Gate) wait(ctx context.Context, w *waiter, told func(api.WaitingEvent)) (func(), error) {
	patience := g.cfg.Patience
	if d, ok := api.PatienceOf(ctx); ok {
		patience = min(patience, d)
	}
	room, refused := api.ElsewhereOf(ctx)
	end := time.NewTimer(patience)
	defer end.Stop()
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	var last api.WaitingEvent
	for {
		// One that was let in within the call has not waited.
		if e, waits := g.place(w); waits && (e.Cause != last.Cause || e.Position != last.Position) {
			last = e
			if told != nil {
				told(e)
			}
		}
		select {
		case <-w.ended:
			g.over(w, last, w.err == nil)
			return w.release, w.err
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, g.giveUp(w, last, nil)
			}
			return nil, g.giveUp(w, last, ctx.Err())
		case <-end.C:
			return nil, g.giveUp(w, last, nil)
		case <-tick.C:
			if room != nil && room() {
				refused()
				return nil, g.giveUp(w, last, nil)
			}
		}
	}
}

// over reports the end of a wait.
func (g *Gate) over(w *waiter, last api.WaitingEvent, admitted bool) {
	if g.cfg.Waited != nil && last.Cause != "" {
		g.cfg.Waited(last.Cause, time.Since(w.since), admitted)
	}
}

// giveUp takes a waiter out of its line. What it was given meanwhile is released. Its
// error is canceled, or says what it waited for.
func (g *Gate) giveUp(w *waiter, last api.WaitingEvent, canceled error) error {
	e, waits := g.place(w)
	if !waits {
		e = last
	}
	g.mu.Lock()
	select {
	case <-w.ended:
		g.mu.Unlock()
		if w.release != nil {
			w.release()
		}
	default:
		i := slices.Index(g.ring, w.line)
		g.drop(i, slices.Index(w.line.waiters, w))
		g.dispatch() // it may have been the one that others waited for
		g.mu.Unlock()
	}
	g.over(w, e, false)
	if canceled != nil {
		return canceled
	}
	if w.err != nil {
		return w.err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.exhausted(api.Errorf(api.KindExhausted, "no capacity for the sandbox after %s, at position %d of %d for %s: %s",
		time.Since(w.since).Round(time.Millisecond), e.Position, e.Of, e.Cause, e.Why), e.Position, e.Cause)
}

// settings are those that a shortage depends on.
var settings = map[api.WaitCause]string{
	api.WaitMemory: "daemon.memory-share or daemon.overcommit", api.WaitDisk: "daemon.overcommit", api.WaitCPUs: "daemon.cpu-overcommit", api.WaitSandboxes: "daemon.max-sandboxes",
}

// exhausted returns when to try again: when as many as are before it have gone.
func (g *Gate) exhausted(err *api.Error, before int, c api.WaitCause) error {
	after := min(max(g.pace*time.Duration(before), time.Second), time.Minute)
	e := *err
	e.RetryAfterMS = after.Milliseconds()
	e.Hint = "retry later, or remove unused sandboxes"
	if s := settings[c]; s != "" {
		e.Hint = "retry later, remove unused sandboxes, or raise " + s
	}
	return &e
}

// place returns what a waiter waits for, and behind how many. It is false for one that
// does not wait any more.
func (g *Gate) place(w *waiter) (api.WaitingEvent, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-w.ended:
		return api.WaitingEvent{}, false
	default:
	}
	mine, k := slices.Index(g.ring, w.line), slices.Index(w.line.waiters, w)
	position := k + 1
	for i, l := range g.ring {
		switch {
		case i < mine:
			position += min(len(l.waiters), k+1)
		case i > mine:
			position += min(len(l.waiters), k)
		}
	}
	c := g.short(w.req).cause()
	return api.WaitingEvent{
		Cause: c, Why: g.why(c, w.req), Position: position, Of: g.queued, WaitedMS: time.Since(w.since).Milliseconds(),
	}, true
}
