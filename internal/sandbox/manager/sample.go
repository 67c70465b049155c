package manager

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/life"
)

const (
	// sampleEvery is how often the use of a live sandbox is noted.
	sampleEvery = 5 * time.Second
	// maxSamples bounds what is kept of a sandbox: the last hour.
	maxSamples = 720
)

// samples are what a sandbox used, the oldest first, as far back as they are kept.
// They live as long as the sandbox is live here.
type samples struct {
	mu   sync.Mutex
	ring []api.Stats
	next int // where the next goes once the ring is full
}

func (s *samples) add(v api.Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ring) < maxSamples {
		s.ring = append(s.ring, v)
		return
	}
	s.ring[s.next] = v
	s.next = (s.next + 1) % maxSamples
}

func (s *samples) list() []api.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]api.Stats, 0, len(s.ring))
	return append(append(out, s.ring[s.next:]...), s.ring[:s.next]...)
}

// last returns the newest.
func (s *samples) last() (api.Stats, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.ring)
	if n == 0 {
		return api.Stats{}, false
	}
	return s.ring[(s.next+n-1)%n], true
}

// sample notes what a sandbox uses now. watch calls it.
func (c watch) sample(l *live) {
	ctx, cancel := context.WithTimeout(c.ctx, sampleEvery)
	defer cancel()
	s, err := l.machine.Stats(ctx)
	if err != nil {
		return // it is ending, and the reason is set elsewhere
	}
	s.At = c.wall()
	l.samples.add(s)
}

// Samples returns the resource usage of a sandbox in this daemon, the oldest first: one sample
// every five seconds, of the last hour. A sandbox that has ended or is paused to disk has none.
func (m *Manager) Samples(ctx context.Context, id api.SandboxID) ([]api.Stats, error) {
	l, ok := m.lookup(id)
	if !ok {
		_, err := m.cfg.Rows.Sandbox(ctx, id)
		return nil, err
	}
	return l.samples.list(), nil
}

// Memory returns what the sandboxes here used when they were last measured.
func (m *Manager) Memory() api.MemoryUse {
	m.mu.Lock()
	living := slices.Collect(maps.Values(m.table))
	m.mu.Unlock()
	all := map[api.SandboxID]api.Stats{}
	for _, l := range living {
		if s, ok := l.samples.last(); ok {
			all[l.id] = s
		}
	}
	return api.MemoryOf(all)
}

// Stats returns what a sandbox uses now.
func (m *Manager) Stats(ctx context.Context, id api.SandboxID) (api.Stats, error) {
	l, err := m.here(ctx, id)
	if err != nil {
		return api.Stats{}, err
	}
	switch state := l.State(); state {
	case life.Queued, life.Starting, life.Restoring:
		return api.Stats{}, refused(l)
	}
	return l.machine.Stats(ctx)
}
