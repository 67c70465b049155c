package life

import (
	"context"
	"sync"
)

// Work is something under way that others can give up.
type Work struct {
	mu     sync.Mutex
	giveUp context.CancelFunc
	wanted bool // it was given up before it had a cancel function
}

// Set makes cancel what gives the work up, until over is called.
func (w *Work) Set(cancel context.CancelFunc) (over func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.giveUp = cancel
	if w.wanted {
		cancel()
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.giveUp, w.wanted = nil, false
	}
}

// Cancel gives the work up, also if it has not begun.
func (w *Work) Cancel() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted = true
	if w.giveUp != nil {
		w.giveUp()
	}
}
