package execserver

import (
	"sync"

	"hortus.dev/api"
)

// processes are those of a session, by the names that the peer chose.
type processes struct {
	mu    sync.Mutex
	by    map[string]*process
	ended []string // names of those that have ended, the oldest first
	work  sync.WaitGroup
}

// add takes a process in under its name.
func (ps *processes) add(p *process) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.by[p.name] != nil {
		return api.Errorf(api.KindExists, "process %.64q already exists", p.name)
	}
	if len(ps.by)-len(ps.ended) >= maxProcesses {
		return api.Errorf(api.KindExhausted, "%d processes are running, which is the maximum", maxProcesses)
	}
	if ps.by == nil {
		ps.by = map[string]*process{}
	}
	ps.by[p.name] = p
	return nil
}

// drop forgets a process that was not started.
func (ps *processes) drop(p *process) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.by, p.name)
}

// end counts a process as ended, and forgets the oldest beyond the bound.
func (ps *processes) end(p *process) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.ended = append(ps.ended, p.name); len(ps.ended) > maxEnded {
		delete(ps.by, ps.ended[0])
		ps.ended = ps.ended[1:]
	}
}

func (ps *processes) get(name string) *process {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.by[name]
}

// live returns those that may run.
func (ps *processes) live() []*process {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var out []*process
	for _, p := range ps.by {
		select {
		case <-p.done:
		default:
			out = append(out, p)
		}
	}
	return out
}
