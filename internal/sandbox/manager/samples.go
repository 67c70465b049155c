package manager

import (
	"sync"
	"time"

	"hortus.dev/api"
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
