package event

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"hortus.dev/api"
)

// maxChanged is the maximum number of streams that a watch remembers between two batches.
const maxChanged = 1024

// watch collects the streams that got events. The Log's lock protects it.
type watch struct {
	streams map[api.Stream]struct{}
	many    bool // more than maxChanged
	// ready has a value if there is something to yield. It is closed with the Log.
	ready chan struct{}
}

// note adds a stream.
func (w *watch) note(s api.Stream) {
	if len(w.streams) >= maxChanged {
		clear(w.streams)
		w.many = true
	}
	if !w.many {
		w.streams[s] = struct{}{}
	}
	select {
	case w.ready <- struct{}{}:
	default: // the value that is there stands for this stream too
	}
}

// Changes yields batches of streams that got events, or were given to Changed, since the batch before it, from the call on. A nil batch stands for
// more streams than a watch remembers, or for those of other processes: any may have changed. It ends when ctx does, when the loop breaks, and after
// Close.
//
// A reader that is slow gets larger batches. It delays neither appenders nor others.
func (l *Log) Changes(ctx context.Context) iter.Seq[[]api.Stream] {
	w := &watch{streams: map[api.Stream]struct{}{}, ready: make(chan struct{}, 1)}
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.watches[w] = struct{}{}
	}
	l.mu.Unlock()
	// Without a loop over the sequence nothing reads the watch: it ends with ctx, too.
	stop := context.AfterFunc(ctx, func() { l.unwatch(w) })
	return func(yield func([]api.Stream) bool) {
		defer func() { stop(); l.unwatch(w) }()
		var tick <-chan time.Time // nil never is ready
		if l.others != nil && l.poll > 0 {
			t := time.NewTicker(2 * l.poll)
			defer t.Stop()
			tick = t.C
		}
		for !closed {
			select {
			case <-ctx.Done():
				return
			case <-tick:
				if l.others() && !yield(nil) {
					return
				}
			case _, open := <-w.ready:
				if !open {
					return
				}
				// There is nothing if a stream was noted between the signal and the look for the one before.
				if batch, some := l.take(w); some && !yield(batch) {
					return
				}
			}
		}
	}
}

// Changed has Changes yield a stream without an event, for rows whose changes are not stored as events. It costs nothing that
// grows with the number of calls: a stream is in a batch once.
func (l *Log) Changed(s api.Stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	for w := range l.watches {
		w.note(s)
	}
}

// take returns the streams of a watch, sorted, and forgets them: nil for more than it remembers. some is false if there are none.
func (l *Log) take(w *watch) (batch []api.Stream, some bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	some = w.many || len(w.streams) > 0
	if !w.many {
		batch = slices.SortedFunc(maps.Keys(w.streams), compareStreams)
	}
	clear(w.streams)
	w.many = false
	return batch, some
}

func compareStreams(a, b api.Stream) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
}

func (l *Log) unwatch(w *watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.watches, w)
}
