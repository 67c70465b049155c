package guestproxy

import (
	"cmp"
	"context"
	"net"
	"sync"
	"time"
)

// DefaultGrace is what a client has, from the end of a sandbox on, to take what is
// left of an answer.
const DefaultGrace = 10 * time.Second

// Ender is a stream that tells when the sandbox that it leads to serves no more in
// this daemon: it ended, was paused to disk, or was left to the next daemon.
type Ender interface{ Ended() <-chan struct{} }

// Deadlines are those of a client's connection. Both net.Conn and
// http.ResponseController have them.
type Deadlines interface {
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// Watch releases a client that neither takes what it asked for nor leaves. Anyone who
// writes to it waits, and would not see the end of the sandbox for as long as the
// client likes. Some time after that end every wait for the client fails; one that
// reads has its answer by then.
type Watch struct {
	client Deadlines
	grace  time.Duration

	mu      sync.Mutex
	stopped bool
	stop    chan struct{}
	wg      sync.WaitGroup
}

// NewWatch makes the watch of one answer. grace is 0 for DefaultGrace. Stop must be
// called before the answer is done with.
func NewWatch(client Deadlines, grace time.Duration) *Watch {
	grace = cmp.Or(grace, DefaultGrace)
	return &Watch{client: client, grace: grace, stop: make(chan struct{})}
}

// Over has the answer end with the sandbox of one of its streams. After Stop it does
// nothing.
func (w *Watch) Over(s Ender) {
	ended := s.Ended()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || ended == nil {
		return
	}
	w.wg.Go(func() {
		select {
		case <-w.stop:
			return
		case <-ended:
		}
		grace := time.NewTimer(w.grace)
		defer grace.Stop()
		select {
		case <-w.stop:
		case <-grace.C:
			now := time.Now()
			_ = w.client.SetWriteDeadline(now) // what has none has no client that waits
			_ = w.client.SetReadDeadline(now)
		}
	})
}

// Stop ends the watch and waits for it.
func (w *Watch) Stop() {
	w.mu.Lock()
	if !w.stopped {
		w.stopped = true
		close(w.stop)
	}
	w.mu.Unlock()
	w.wg.Wait()
}

type watchKey struct{}

// In returns a context for the streams that a transport opens for the answer.
func (w *Watch) In(ctx context.Context) context.Context {
	return context.WithValue(ctx, watchKey{}, w)
}

// Opened readies a stream to a sandbox for the transport that opened it: it says
// nothing before it was spoken to, and the Watch in the context, if there is one,
// watches it.
func Opened(ctx context.Context, c net.Conn) net.Conn {
	if w, ok := ctx.Value(watchKey{}).(*Watch); ok {
		if e, ok := c.(Ender); ok {
			w.Over(e)
		}
	}
	return afterFirstWrite(c)
}
