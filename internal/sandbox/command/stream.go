package command

import (
	"io"
	"sync/atomic"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// Stream is one reader of a command's events. It is for one goroutine.
type Stream struct {
	x       *command
	started bool
	done    bool
	// kept is since when the caller has the last event, in Unix nanoseconds, or waiting
	// while the caller waits for the next one.
	kept atomic.Int64
}

const (
	// waiting is not a time.
	waiting = -1
	// stalledAfter is the maximum time between two calls of Next of a reader that counts.
	stalledAfter = 30 * time.Second
)

func (c *Commands) newStream(x *command) *Stream {
	s := &Stream{x: x}
	s.kept.Store(c.cfg.Now().UnixNano())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readers[s] = struct{}{}
	return s
}

// Streams returns the number of streams of commands with an active reader. If a reader has not
// called Next for half a minute, for example because its client stopped reading, it does not
// count.
func (c *Commands) Streams() (n int) {
	late := c.cfg.Now().Add(-stalledAfter).UnixNano()
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.readers {
		if at := s.kept.Load(); at == waiting || at > late {
			n++
		}
	}
	return n
}

// Exec returns the current record. After Next returned io.EOF it is final.
func (s *Stream) Exec() api.Exec { return s.x.record() }

// Next returns the next event: the start, then output, then the end. After the end it
// returns io.EOF. The event is valid until the next call. Every reader gets the end when the
// command's record is stored. If the guest did not report an end, there is no event for it: Next
// fails with KindUnavailable or KindTimeout, and the exit is unknown in the record. If the end
// could not be stored, Next fails with the store's error.
func (s *Stream) Next() (*envd.ProcessEvent, error) {
	s.kept.Store(waiting)
	defer func() { s.kept.Store(s.x.c.cfg.Now().UnixNano()) }()
	if !s.started {
		s.started = true
		return &envd.ProcessEvent{Start: &s.x.start}, nil
	}
	if s.done {
		return nil, io.EOF
	}
	ev, err := s.x.next()
	switch {
	case err != nil && s.x.goesOn():
		_ = s.Close() // the record still wants its end
	case err != nil || ev.End != nil:
		s.over()
	}
	return ev, err
}

// over marks that the reader has stopped.
func (s *Stream) over() {
	s.done = true
	c := s.x.c
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.readers, s)
}

// Ended is closed when the sandbox serves no more in this daemon: it ended, was paused to
// disk, or was left to the next daemon. Next fails then.
func (s *Stream) Ended() <-chan struct{} { return s.x.set.Ended }

// Close stops reading. A command that still runs continues, and its record gets its end.
func (s *Stream) Close() error {
	if s.done {
		return nil
	}
	s.over()
	if s.x.viewer {
		return s.x.stream.Close()
	}
	s.x.c.cfg.Go(s.x.readOn)
	return nil
}
