package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"hortus.dev/api"
)

const (
	// maxWaiting is the maximum number of goroutines that wait for a stream.
	maxWaiting = 16
	// minRetry and maxRetry bound the delay after an error of the link.
	minRetry = 50 * time.Millisecond
	maxRetry = 5 * time.Second
	// maxGone is how often in sequence the link may say that the guest is gone before the
	// session ends: a socket with a full backlog cannot be distinguished from one that is closed.
	maxGone = 5
)

// acceptor accepts the streams of a session. One goroutine always waits for a stream. A guest
// gets a stream only while one waits, so more of them wait when streams come quickly; they end
// when nothing comes for a while.
type acceptor struct {
	s *Session

	mu      sync.Mutex
	running int
	waiting int
}

// start starts the goroutine that always waits.
func (a *acceptor) start() {
	a.running = 1
	a.s.all.Go(func() { a.run(false) })
}

// run accepts streams until the session ends. An extra goroutine ends when none comes in time.
func (a *acceptor) run(extra bool) {
	defer func() {
		a.mu.Lock()
		a.running--
		a.mu.Unlock()
	}()
	s := a.s
	gone := 0
	for delay := minRetry; ; {
		served, err := a.one(extra)
		if served {
			delay, gone = minRetry, 0
			continue
		}
		if s.ctx.Err() != nil || extra {
			return
		}
		kind := api.KindOf(err)
		if kind == api.KindUnavailable {
			gone++
		}
		switch {
		case kind == api.KindUnsupported, gone == maxGone:
			// The guest is an old one, or it is gone. Others that wait end too.
			s.cfg.Logger.Debug("no more outgoing connections", "sandbox", s.peer.Sandbox, "reason", err)
			s.cancel()
			return
		case kind != api.KindUnavailable:
			s.cfg.Logger.Warn("cannot accept outgoing connections", "sandbox", s.peer.Sandbox, "error", err, "retry", delay)
		}
		select {
		case <-time.After(delay):
		case <-s.ctx.Done():
			return
		}
		delay = min(2*delay, maxRetry)
	}
}

// one waits for one stream and starts to serve it.
func (a *acceptor) one(extra bool) (served bool, _ error) {
	s := a.s
	ctx := s.ctx
	if extra {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.cfg.idle)
		defer cancel()
	}
	a.mu.Lock()
	a.waiting++
	a.mu.Unlock()
	conn, err := s.peer.Link.Accept(ctx)
	a.mu.Lock()
	a.waiting--
	more := 0
	if err == nil && a.waiting == 0 {
		// All were needed: double their number.
		more = min(a.running, maxWaiting-a.running)
		a.running += more
	}
	a.mu.Unlock()
	if err != nil {
		return false, err
	}
	c := &connection{s: s, stream: conn, began: time.Now()}
	if !s.enter(c) {
		conn.Close()
		// A guest that opens streams without end must not keep a CPU busy.
		select {
		case <-time.After(time.Millisecond):
		case <-s.ctx.Done():
		}
	} else {
		s.all.Go(c.serve)
	}
	for range more {
		s.all.Go(func() { a.run(true) })
	}
	return true, nil
}

var errClosed = errors.New("the session is closed")
