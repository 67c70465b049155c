package flight

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
)

// Group has the flights of one kind. The zero value is empty. Its methods may be called from
// several goroutines.
type Group[V any] struct {
	mu   sync.Mutex
	open map[string]*run[V]
}

// Flight is what a running function knows of those who wait for it.
type Flight struct {
	depart func()
	mu     sync.Mutex
	notes  map[int]func(string)
	next   int
}

// Depart closes the flight for newcomers. It is idempotent.
func (f *Flight) Depart() { f.depart() }

// Note passes a line to everybody on board, one after the other.
func (f *Flight) Note(line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, note := range f.notes {
		note(line)
	}
}

func (f *Flight) board(note func(string)) (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := f.next
	f.next++
	if note != nil {
		f.notes[id] = note
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.notes, id)
	}
}

type run[V any] struct {
	Flight
	aboard int // guarded by Group.mu
	cancel context.CancelFunc
	done   chan struct{}
	value  V
	err    error
}

// Do returns what fn returns, which runs once for all calls with the same key that come
// before it departs. shared is true if another call started it. note, if not nil, receives
// the lines of [Flight.Note] until Do returns; it must not block for long. fn gets the
// values of the first caller's context, and is canceled when nobody waits any more. The
// error is the cause of ctx if that ended first.
func (g *Group[V]) Do(ctx context.Context, key string, note func(string), fn func(context.Context, *Flight) (V, error)) (v V, shared bool, err error) {
	if ctx.Err() != nil {
		return v, false, context.Cause(ctx)
	}
	g.mu.Lock()
	r := g.open[key]
	if shared = r != nil; !shared {
		r = g.start(ctx, key, fn)
	}
	r.aboard++
	leave := r.board(note)
	g.mu.Unlock()
	defer leave()
	select {
	case <-r.done:
		return r.value, shared, r.err
	case <-ctx.Done():
	}
	g.mu.Lock()
	r.aboard--
	last := r.aboard == 0
	if last {
		g.close(key, r)
	}
	g.mu.Unlock()
	if last {
		r.cancel()
		<-r.done
	}
	return v, shared, context.Cause(ctx)
}

// close removes a flight from those that can be joined. g.mu is held.
func (g *Group[V]) close(key string, r *run[V]) {
	if g.open[key] == r {
		delete(g.open, key)
	}
}

// start starts a flight. g.mu is held. Its Do calls are its owners: the last of them waits.
func (g *Group[V]) start(ctx context.Context, key string, fn func(context.Context, *Flight) (V, error)) *run[V] {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &run[V]{cancel: cancel, done: make(chan struct{})}
	depart := func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.close(key, r)
	}
	r.Flight.depart, r.Flight.notes = depart, map[int]func(string){}
	if g.open == nil {
		g.open = map[string]*run[V]{}
	}
	g.open[key] = r
	go func() {
		defer close(r.done)
		defer cancel()
		defer depart()
		defer func() {
			// A panic is the error of each call, in its own goroutine.
			if v := recover(); v != nil {
				r.err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
			}
		}()
		r.value, r.err = fn(ctx, &r.Flight)
	}()
	return r
}
