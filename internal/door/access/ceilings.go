package access

import (
	"context"
	"fmt"
	"sync"

	"hortus.dev/api"
)

// ceilings counts what the sandboxes of each key use together. It counts a sandbox
// from before it is made until it is seen to have ended: two that are asked for at
// once are never both the last.
type ceilings struct {
	m Manager

	mu   sync.Mutex
	keys map[api.KeyID]*share
}

// share is what the sandboxes of one key have. Keys without ceilings have none.
type share struct {
	mu sync.Mutex
	// known is set once the sandboxes of before this daemon are among boxes.
	known   bool
	boxes   map[api.SandboxID]amount
	pending amount
}

// amount is what some sandboxes have together.
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

// of gives the share of a key.
func (c *ceilings) of(id api.KeyID) *share {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.keys[id]
	if s == nil {
		s = &share{boxes: map[api.SandboxID]amount{}}
		c.keys[id] = s
	}
	return s
}

// hold makes n sandboxes for a caller if the ceilings of its key leave room for
// them, and counts those that do gives. limits are those of each.
func (c *ceilings) hold(ctx context.Context, p api.Principal, n int, limits func() (api.Limits, error), do func() ([]api.Sandbox, error)) error {
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
	if err := s.reserve(ctx, c.m, p, wanted); err != nil {
		return err
	}
	var made []api.Sandbox
	// Also when making panics: what is counted and not there would never go.
	defer func() { s.settle(wanted, made) }()
	made, err = do()
	return err
}

// reserve counts what is about to be made, unless it goes over a ceiling.
func (s *share) reserve(ctx context.Context, m Manager, p api.Principal, wanted amount) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known {
		all, err := m.List(ctx, false)
		if err != nil {
			return err
		}
		for _, b := range all {
			if b.Key == p.Key {
				s.boxes[b.ID] = amountOf(b.Limits)
			}
		}
		s.known = true
	}
	used := s.pending
	for id, a := range s.boxes {
		row, err := m.Get(ctx, id)
		if api.KindOf(err) == api.KindNotFound || err == nil && row.State.Final() {
			delete(s.boxes, id)
			continue
		}
		if err != nil {
			return err
		}
		used = used.plus(a)
	}
	top := p.Ceilings
	after := used.plus(wanted)
	switch {
	case top.Sandboxes > 0 && after.n > top.Sandboxes:
		return over("sandboxes", "%d live, %d more are asked for, and %d may live at a time", used.n, wanted.n, top.Sandboxes)
	case top.MemoryBytes > 0 && after.memory > top.MemoryBytes:
		return over("memory", "the live ones have %d bytes, %d more are asked for, and together they may have %d", used.memory, wanted.memory, top.MemoryBytes)
	case top.CPUs > 0 && after.cpus > top.CPUs*(1+1e-9):
		return over("cpus", "the live ones have %g processors, %g more are asked for, and together they may have %g", used.cpus, wanted.cpus, top.CPUs)
	}
	s.pending = s.pending.plus(wanted)
	return nil
}

// settle counts what was made instead of what was to be.
func (s *share) settle(wanted amount, made []api.Sandbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = s.pending.plus(wanted.times(-1))
	if s.pending.n == 0 {
		s.pending = amount{} // without what the sums of fractions leave
	}
	for _, b := range made {
		if b.ID != "" {
			s.boxes[b.ID] = amountOf(b.Limits)
		}
	}
}

// over is the error of a ceiling.
func over(ceiling, format string, args ...any) error {
	return api.Errorf(api.KindExhausted, "the ceiling %q of this API key is reached: %s", ceiling, fmt.Sprintf(format, args...)).
		WithHint("end sandboxes, paused ones too, or ask for less; whoever runs the server gives out keys with other ceilings")
}

// life is how long a sandbox may be asked to live, in milliseconds. What asks for no
// time in particular gets what there is.
func life(p api.Principal, ms int64) (int64, error) {
	most := p.Ceilings.TTLMS
	switch {
	case most == 0:
		return ms, nil
	case ms == 0:
		return min(api.DefaultTTL.Milliseconds(), most), nil
	case ms > most:
		return 0, tooLong(ms, most)
	}
	return ms, nil
}

func tooLong(ms, most int64) error {
	return over("ttl", "a life of %d ms is asked for, and the longest is %d ms", ms, most)
}
