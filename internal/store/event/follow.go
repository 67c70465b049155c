package event

import (
	"context"
	"iter"
	"time"

	"hortus.dev/api"
)

// pageEvents is the number of events that a follower reads from the store at once. The
// store also bounds the bytes of a page.
const pageEvents = 128

// Follow yields the events of a stream that follow number after: those that are
// stored, then each one as it is appended, in order, without a gap or a repeat.
// It ends without an error when ctx does, when the loop breaks, and after Close
// once everything appended before it was yielded. A failure of the store is
// yielded as the last pair, with a zero event.
//
// A follower runs in its caller's goroutine and holds one page of events at
// most, however far behind it is; it delays neither appenders nor others. The
// sequence may be ranged over more than once, also at the same time.
func (l *Log) Follow(ctx context.Context, s api.Stream, after int64) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		if err := checkStream(s); err != nil {
			yield(api.Event{}, err)
			return
		}
		if after < 0 {
			yield(api.Event{}, api.Errorf(api.KindInvalid, "events of %s %s: the number %d is negative", s.Kind, s.ID, after))
			return
		}
		l.join(s)
		defer l.leave(s)
		for n := after; ctx.Err() == nil; {
			// Get the channel before reading the store, so that an append between
			// the two is not missed.
			last, changed := l.watch(s)
			if n >= last && l.poll == 0 {
				if !l.wait(ctx, changed) {
					return
				}
				continue
			}
			page, err := l.store.ReadEvents(ctx, s, n, pageEvents)
			if err != nil {
				if ctx.Err() == nil {
					yield(api.Event{}, err)
				}
				return
			}
			for _, e := range page {
				// The store is broken. A reader must not miss events unnoticed.
				if e.Seq != n+1 {
					yield(api.Event{}, api.Errorf(api.KindInternal, "events of %s %s: %d follows %d", s.Kind, s.ID, e.Seq, n))
					return
				}
				if ctx.Err() != nil || !yield(e, nil) {
					return
				}
				n = e.Seq
			}
			if len(page) == 0 && !l.wait(ctx, changed) {
				return
			}
		}
	}
}

// wait reports whether there may be new events. A nil channel means that the log is closed.
func (l *Log) wait(ctx context.Context, changed <-chan struct{}) bool {
	if changed == nil {
		return false
	}
	var poll <-chan time.Time // nil never is ready
	if l.poll > 0 {
		timer := time.NewTimer(l.poll)
		defer timer.Stop()
		poll = timer.C
	}
	select {
	case <-changed:
		return true
	case <-poll:
		return true
	case <-ctx.Done():
		return false
	}
}

// watch returns the highest number known to be stored, and a channel that is closed when
// there are more events (nil if the log is closed).
func (l *Log) watch(s api.Stream) (last int64, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[s]
	if t.last == 0 {
		return unknownLast, t.changed
	}
	return t.last, t.changed
}

func (l *Log) join(s api.Stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[s]
	if t == nil {
		t = &topic{}
		if !l.closed {
			t.changed = make(chan struct{})
		}
		l.topics[s] = t
	}
	t.followers++
}

func (l *Log) leave(s api.Stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[s]
	if t.followers--; t.followers == 0 {
		delete(l.topics, s)
	}
}
