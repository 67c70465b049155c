package envd

import (
	"sync"

	"hortus.dev/api"
)

// maxGaps bounds how many commands are remembered whose client left.
const maxGaps = 10_000

// gaps remembers where the last client of a command stopped reading, so that the next one
// that connects gets what was written in between. E2B's wire has no offsets; a second
// client beside a first one gets what comes from now on, as there.
type gaps struct {
	mu sync.Mutex
	at map[api.ExecID]int64
}

// left says that a client has gone which was sent the output up to an offset.
func (g *gaps) left(exec api.ExecID, at int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.at == nil || len(g.at) >= maxGaps {
		g.at = map[api.ExecID]int64{} // those that are forgotten continue with what comes
	}
	g.at[exec] = at
}

// take returns the offset that the next client continues from, once; -1 if there is none.
func (g *gaps) take(exec api.ExecID) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.at[exec]
	if !ok {
		return -1
	}
	delete(g.at, exec)
	return at
}
