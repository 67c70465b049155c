package event

import (
	"context"
	"encoding/json"
	"math"
	"sync"
	"time"

	"hortus.dev/api"
)

// MaxData is the maximum size of the data of an event, in bytes of JSON. Larger data, for
// example the output of a program, is in a file that an event refers to.
const MaxData = 1 << 20

// Store stores events; store.Events has its contract. Its methods may be called
// concurrently.
type Store interface {
	AppendEvent(ctx context.Context, s api.Stream, t api.EventType, at time.Time, data json.RawMessage) (int64, error)
	ReadEvents(ctx context.Context, s api.Stream, after int64, limit int) ([]api.Event, error)
}

// Config is the configuration of a [Log]. Store is required.
type Config struct {
	Store Store
	// Notify is called after each append, with the number of the event. A daemon that shares
	// its store with others tells them by it, and they call [Log.Wake]. It must not block;
	// nil means that nobody else follows the store's streams.
	Notify func(s api.Stream, seq int64)
	// Poll is the time between two looks of a follower at the store, if other processes append to it without calling
	// Wake; 0 means that none does.
	Poll time.Duration
	// Others reports whether other processes append now: then [Log.Changes] says after each two Polls that anything may have changed. Nil
	// means that none does.
	Others func() bool
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Log appends events and notifies followers. Its methods may be called concurrently. It
// starts no goroutine.
//
// It wakes the followers of what is appended through itself. For an event that another
// process appended, call [Log.Wake], or set Config.Poll.
type Log struct {
	store  Store
	notify func(s api.Stream, seq int64)
	poll   time.Duration
	others func() bool
	now    func() time.Time

	mu     sync.Mutex
	closed bool
	// topics has an entry for each stream with followers.
	topics map[api.Stream]*topic
	// watches are those of Changes.
	watches map[*watch]struct{}
}

// topic connects the appenders and followers of a stream.
type topic struct {
	followers int
	// last is the highest number known to be stored; 0 means not known.
	last int64
	// changed is closed, and replaced, at every append.
	changed chan struct{}
}

// NewLog returns a log that uses a store and does not close it.
func NewLog(cfg Config) *Log {
	now := cfg.Now
	if now == nil {
		now = time.Now
	}
	return &Log{store: cfg.Store, notify: cfg.Notify, poll: cfg.Poll, others: cfg.Others, now: now, topics: make(map[api.Stream]*topic), watches: make(map[*watch]struct{})}
}

// Append stores a fact and then wakes those who follow its stream. data is what
// encoding/json makes of it; nil means an event without data. The event comes
// back as a reader will see it, its time cut to microseconds.
//
// An event is JSON from here to the last reader, so a string that is not valid
// UTF-8 has each wrong byte replaced by U+FFFD: bytes that a program wrote
// belong in a []byte field, as in [api.OutputEvent].
//
// The kind of an error is KindInvalid for data that cannot be marshalled or is
// larger than [MaxData], and KindUnavailable after Close.
func (l *Log) Append(ctx context.Context, s api.Stream, t api.EventType, data any) (api.Event, error) {
	if err := checkStream(s); err != nil {
		return api.Event{}, err
	}
	if t == "" {
		return api.Event{}, api.Errorf(api.KindInvalid, "an event for %s %.64q has no type", s.Kind, s.ID)
	}
	var raw json.RawMessage
	if data != nil {
		b, err := json.Marshal(data)
		if err != nil {
			return api.Event{}, api.Errorf(api.KindInvalid, "data of event %s for %s %s: %w", t, s.Kind, s.ID, err)
		}
		raw = b
	}
	if len(raw) > MaxData {
		return api.Event{}, api.Errorf(api.KindInvalid, "data of event %s for %s %s is %d bytes, more than %d", t, s.Kind, s.ID, len(raw), MaxData).
			WithHint("store large data in a file and refer to it in the event")
	}
	if l.isClosed() {
		return api.Event{}, api.Errorf(api.KindUnavailable, "event %s for %s %s: the log is closed", t, s.Kind, s.ID)
	}
	at := l.now().UTC().Truncate(time.Microsecond)
	seq, err := l.store.AppendEvent(ctx, s, t, at, raw)
	if err != nil {
		return api.Event{}, err
	}
	l.Wake(s, seq)
	if l.notify != nil {
		l.notify(s, seq)
	}
	return api.Event{Stream: s, Seq: seq, At: at, Type: t, Data: raw}, nil
}

// Read returns the stored events after a number, in order, at most limit (1 to 1000, 0
// means 1000). It may return fewer, but none only if there is none. Call it again after the
// last event to read all.
func (l *Log) Read(ctx context.Context, s api.Stream, after int64, limit int) ([]api.Event, error) {
	if err := checkStream(s); err != nil {
		return nil, err
	}
	if after < 0 || limit < 0 {
		return nil, api.Errorf(api.KindInvalid, "events of %s %s: neither the number %d nor the limit %d may be negative", s.Kind, s.ID, after, limit)
	}
	const most = 1000
	if limit == 0 || limit > most {
		limit = most
	}
	return l.store.ReadEvents(ctx, s, after, limit)
}

// Close wakes all followers: each one yields what was appended before and ends.
// It waits for none of them, since a follower runs in its caller's loop; so the
// store may be closed only after those loops have ended.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	for _, t := range l.topics {
		close(t.changed)
		t.changed = nil // nothing waits for it; see wait
	}
	for w := range l.watches {
		close(w.ready)
	}
}

func (l *Log) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// Wake wakes the followers of a stream that has the event seq. A number that is not stored
// costs them a read of the store and nothing else.
func (l *Log) Wake(s api.Stream, seq int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		for w := range l.watches {
			w.note(s)
		}
	}
	t := l.topics[s]
	if t == nil {
		return
	}
	t.last = max(t.last, seq)
	if !l.closed {
		close(t.changed)
		t.changed = make(chan struct{})
	}
}

func checkStream(s api.Stream) error {
	if s.Kind == "" || s.ID == "" {
		return api.Errorf(api.KindInvalid, "an event stream needs a kind and an id, not %.64q and %.64q", s.Kind, s.ID)
	}
	return nil
}

// unknownLast makes a follower read the store instead of trusting topic.last.
const unknownLast = math.MaxInt64
