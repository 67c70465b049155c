package sandbox

import (
	"sync"
	"time"
)

// stalledAfter is how long somebody may keep an event without asking for the next one
// and still be one who reads.
const stalledAfter = 30 * time.Second

// readers are those who have a stream of a command.
type readers struct {
	mu  sync.Mutex
	all map[*ExecStream]struct{}
}

func (r *readers) enter(s *ExecStream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[*ExecStream]struct{}{}
	}
	r.all[s] = struct{}{}
}

func (r *readers) leave(s *ExecStream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, s)
}

// opened is a stream that somebody begins to read.
func (m *Manager) opened(x *running) *ExecStream {
	s := &ExecStream{m: m, x: x}
	s.kept.Store(m.now().UnixNano())
	m.readers.enter(s)
	return s
}

// Streams counts the streams of commands that somebody reads. One whose reader has
// asked for nothing in half a minute, as a client does that stopped reading, is none:
// nobody can wait for the end of it.
func (m *Manager) Streams() (n int) {
	late := m.now().Add(-stalledAfter).UnixNano()
	m.readers.mu.Lock()
	defer m.readers.mu.Unlock()
	for s := range m.readers.all {
		if at := s.kept.Load(); at == waiting || at > late {
			n++
		}
	}
	return n
}
