package perkey

import (
	"context"
	"sync"
)

// Locks has the locks of any number of keys. Its methods may be called from several goroutines.
type Locks struct {
	mu sync.Mutex
	// held has a channel for each key that is held, which is closed when it is released.
	held map[string]chan struct{}
}

// Lock takes the lock of a key and returns what releases it, which is to be called once. It
// waits while another has the lock; the error is the cause of ctx if that ended first. Those who
// wait get the lock in no certain order.
func (l *Locks) Lock(ctx context.Context, key string) (unlock func(), err error) {
	for {
		busy, unlock := l.try(key)
		if unlock != nil {
			return unlock, nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// try takes the lock, or returns what is closed when it is worth another try.
func (l *Locks) try(key string) (busy <-chan struct{}, unlock func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if busy, ok := l.held[key]; ok {
		return busy, nil
	}
	done := make(chan struct{})
	if l.held == nil {
		l.held = map[string]chan struct{}{}
	}
	l.held[key] = done
	return nil, func() {
		l.mu.Lock()
		delete(l.held, key)
		l.mu.Unlock()
		close(done)
	}
}
