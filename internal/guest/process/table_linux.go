package process

import (
	"slices"
	"strconv"
	"sync"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

const (
	// maxProcesses bounds the commands that are alive at once.
	maxProcesses = 1024
	// maxFinished and maxFinishedBytes bound those that are kept afterwards with what
	// they wrote.
	maxFinished      = 64
	maxFinishedBytes = 8 << 20
	// maxEnds bounds those of which the end is kept: as many as can be alive when a
	// host dies, so that the next one learns of every end.
	maxEnds = maxProcesses
)

// table finds processes, alive and kept.
type table struct {
	mu       sync.Mutex
	live     []*Process // in order of their start
	finished []*Process // in order of their end
	bare     int        // how many of those, the oldest, have lost their output
	bytes    int        // what the others keep
}

// add records a process that was started. It refuses an exec id that is taken.
func (t *table) add(p *Process) {
	t.mu.Lock()
	t.live = append(t.live, p)
	t.mu.Unlock()
}

// checkRoom says whether one more process may start under that exec id.
func (t *table) checkRoom(execID string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.live) >= maxProcesses {
		return api.Errorf(api.KindExhausted, "%d commands run in this sandbox already", maxProcesses)
	}
	if execID != "" && t.find(func(p *Process) bool { return p.execID == execID }) != nil {
		return api.Errorf(api.KindExists, "exec id %q is taken", execID)
	}
	return nil
}

// end moves a process to those that are kept, and forgets what the oldest of them
// wrote, and in the end them, beyond the bounds.
func (t *table) end(p *Process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.live, p); i >= 0 {
		t.live = slices.Delete(t.live, i, i+1)
	}
	p.keeps = p.Log.Size()
	t.finished = append(t.finished, p)
	t.bytes += p.keeps
	for t.bare < len(t.finished)-1 && (t.bytes > maxFinishedBytes || len(t.finished)-t.bare > maxFinished) {
		old := t.finished[t.bare]
		old.forget()
		t.bytes -= old.keeps
		t.bare++
	}
	if over := len(t.finished) - maxEnds; over > 0 {
		t.finished = slices.Delete(t.finished, 0, over)
		t.bare -= over // the output of all of them went before
	}
}

// find looks at the live ones first, then at the newest of the kept. The caller
// holds the lock.
func (t *table) find(match func(*Process) bool) *Process {
	for _, list := range [][]*Process{t.live, t.finished} {
		for _, p := range slices.Backward(list) {
			if match(p) {
				return p
			}
		}
	}
	return nil
}

// lookup finds a process by its selector, or by its exec id when that is all
// there is.
func (t *table) lookup(sel *envd.Selector, execID string) (*Process, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var p *Process
	var what string
	switch {
	case sel != nil && sel.PID != nil:
		what = "process " + strconv.Itoa(int(*sel.PID))
		p = t.find(func(p *Process) bool { return p.pid == int(*sel.PID) })
	case sel != nil && sel.Tag != nil:
		what = "process with tag " + strconv.Quote(*sel.Tag)
		p = t.find(func(p *Process) bool { return p.tag != nil && *p.tag == *sel.Tag })
	case execID != "":
		what = "exec " + strconv.Quote(execID)
		p = t.find(func(p *Process) bool { return p.execID == execID })
	default:
		return nil, api.Errorf(api.KindInvalid, "the request selects no process")
	}
	if p == nil {
		return nil, api.Errorf(api.KindNotFound, "%s not found", what)
	}
	return p, nil
}

// list describes the live processes.
func (t *table) list() []*envd.ProcessInfo {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*envd.ProcessInfo, 0, len(t.live))
	for _, p := range t.live {
		out = append(out, &envd.ProcessInfo{Config: p.config, PID: uint32(p.pid), Tag: p.tag})
	}
	return out
}

// snapshot copies the list of live processes.
func (t *table) snapshot() []*Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.live)
}
