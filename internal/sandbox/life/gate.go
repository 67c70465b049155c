package life

import (
	"context"
	"sync"
)

// Gate is what streams to a guest pass when they are opened. A save shuts it: no
// stream of a command is then half-way between its request and its first event,
// and what is cut was open before.
type Gate struct {
	mu     sync.Mutex
	saves  uint64        // how many saves have begun
	shut   chan struct{} // nil while it is open; closed when it opens again
	inside int
	left   chan struct{} // closed when all have left, if a caller waits for that
}

// Enter waits until the gate is open and counts an opener of a stream. It returns the number of
// the last save: only a later one can close the stream.
func (g *Gate) Enter(ctx context.Context) (uint64, error) {
	for {
		g.mu.Lock()
		shut := g.shut
		if shut == nil {
			g.inside++
			saves := g.saves
			g.mu.Unlock()
			return saves, nil
		}
		g.mu.Unlock()
		if err := await(ctx, shut); err != nil {
			return 0, err
		}
	}
}

// Leave is called once for each enter.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 && g.left != nil {
		close(g.left)
		g.left = nil
	}
}

// Await waits until no save is under way and gives the number of the last.
func (g *Gate) Await(ctx context.Context) (uint64, error) {
	for {
		g.mu.Lock()
		shut, saves := g.shut, g.saves
		g.mu.Unlock()
		if shut == nil {
			return saves, nil
		}
		if err := await(ctx, shut); err != nil {
			return 0, err
		}
	}
}

// Close shuts the gate for a save, after another one if there is one, and waits
// for those who are inside.
func (g *Gate) Close(ctx context.Context) error {
	for {
		g.mu.Lock()
		shut := g.shut
		if shut == nil {
			break
		}
		g.mu.Unlock()
		if err := await(ctx, shut); err != nil {
			return err
		}
	}
	g.shut = make(chan struct{})
	var left chan struct{}
	if g.inside > 0 {
		left = make(chan struct{})
		g.left = left
	}
	g.mu.Unlock()
	if left != nil {
		if err := await(ctx, left); err != nil {
			g.Open()
			return err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.saves++
	return nil
}

// Open ends a save.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.shut)
	g.shut, g.left = nil, nil
}

func await(ctx context.Context, ch <-chan struct{}) error {
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
