package quota

import (
	"context"
	"sync"
	"time"

	"hortus.dev/api"
)

// ceilings counts what the sandboxes of each key use together. A sandbox counts from before it
// is created until it has ended, so that concurrent requests cannot exceed a ceiling.
type ceilings struct {
	sandboxes Sandboxes
	// owner is this daemon, if others create sandboxes too.
	owner api.OwnerID

	mu   sync.Mutex
	keys map[api.KeyID]*usage
}

func newCeilings(s Sandboxes, owner api.OwnerID) *ceilings {
	return &ceilings{sandboxes: s, owner: owner, keys: map[api.KeyID]*usage{}}
}

// usage is what the sandboxes of one key use. Keys without ceilings have none.
type usage struct {
	mu sync.Mutex
	// known is set once sandboxes includes the sandboxes of earlier daemons.
	known     bool
	sandboxes map[api.SandboxID]amount
	pending   amount
}

// maxRetry is the longest time after which a request that exceeds a ceiling may be tried again: sandboxes can end before their deadlines.
const maxRetry = time.Minute

// amount is what some sandboxes use together.
type amount struct {
	n      int
	memory int64
	cpus   float64
}

func (a amount) plus(b amount) amount { return amount{a.n + b.n, a.memory + b.memory, a.cpus + b.cpus} }

func (a amount) times(n int) amount {
	return amount{a.n * n, a.memory * int64(n), a.cpus * float64(n)}
}

func amountOf(l api.Limits) amount { return amount{1, l.MemoryBytes, l.CPUs} }

// of returns the usage of a key.
func (c *ceilings) of(id api.KeyID) *usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.keys[id]
	if s == nil {
		s = &usage{sandboxes: map[api.SandboxID]amount{}}
		c.keys[id] = s
	}
	return s
}

// create calls do, which creates n sandboxes with these limits, unless that exceeds a ceiling
// of the caller's key. It counts the sandboxes that do returns.
func (c *ceilings) create(ctx context.Context, p api.Principal, n int, limits func() (api.Limits, error), do func() ([]api.Sandbox, error)) error {
	top := p.Ceilings
	if p.Key == "" || top.Sandboxes == 0 && top.MemoryBytes == 0 && top.CPUs == 0 {
		_, err := do()
		return err
	}
	l, err := limits()
	if err != nil {
		return err
	}
	wanted := amountOf(l).times(n)
	s := c.of(p.Key)
	if err := s.reserve(ctx, c, p, wanted); err != nil {
		return err
	}
	var made []api.Sandbox
	// Deferred, so that a panic releases the reservation.
	defer func() { s.commit(wanted, made) }()
	made, err = do()
	return err
}

// reserve counts what is about to be created, unless it exceeds a ceiling.
func (s *usage) reserve(ctx context.Context, c *ceilings, p api.Principal, wanted amount) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known || c.owner != "" {
		rows, err := c.sandboxes.List(ctx, false)
		if err != nil {
			return err
		}
		for _, b := range rows {
			// One of this daemon is counted by commit: until then it is pending.
			if b.Key == p.Key && (!s.known || b.Owner != c.owner) {
				s.sandboxes[b.ID] = amountOf(b.Limits)
			}
		}
		s.known = true
	}
	used, end := s.pending, time.Now().Add(maxRetry)
	for id, a := range s.sandboxes {
		row, err := c.sandboxes.Get(ctx, id)
		if api.KindOf(err) == api.KindNotFound || err == nil && row.State.Final() {
			delete(s.sandboxes, id)
			continue
		}
		if err != nil {
			return err
		}
		used = used.plus(a)
		if row.State == api.SandboxRunning && row.ExpiresAt.Before(end) {
			end = row.ExpiresAt
		}
	}
	// The sum of what is used and what is wanted may be too large for an int64.
	top := p.Ceilings
	var over *api.Error
	switch {
	case top.Sandboxes > 0 && wanted.n > top.Sandboxes-used.n:
		over = exceeded("sandboxes", "%d are running, %d more were requested, the maximum is %d", used.n, wanted.n, top.Sandboxes)
	case top.MemoryBytes > 0 && wanted.memory > top.MemoryBytes-used.memory:
		over = exceeded("memory", "running sandboxes have %d bytes, %d more were requested, the maximum is %d", used.memory, wanted.memory, top.MemoryBytes)
	case top.CPUs > 0 && used.cpus+wanted.cpus > top.CPUs*(1+1e-9):
		over = exceeded("cpus", "running sandboxes have %g processors, %g more were requested, the maximum is %g", used.cpus, wanted.cpus, top.CPUs)
	}
	if over != nil {
		if used.n > 0 { // what is there ends at its deadline at the latest
			over.RetryAfterMS = max(time.Until(end), time.Second).Milliseconds()
		}
		return over
	}
	s.pending = s.pending.plus(wanted)
	return nil
}

// commit replaces a reservation by what was created.
func (s *usage) commit(wanted amount, made []api.Sandbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = s.pending.plus(wanted.times(-1))
	if s.pending.n == 0 {
		s.pending = amount{} // removes rounding errors
	}
	for _, b := range made {
		if b.ID != "" {
			s.sandboxes[b.ID] = amountOf(b.Limits)
		}
	}
}
