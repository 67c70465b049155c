package process

import (
	"slices"
	"strconv"
	"sync"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

const (
	// maxProcesses is the maximum number of commands that are alive.
	maxProcesses = 1024
	// maxFinished and maxFinishedBytes limit the ended commands whose output is kept.
	maxFinished      = 64
	maxFinishedBytes = 8 << 20
	// maxEnds is the maximum number of ended commands whose end is kept: as many as can be
	// alive when a host dies, so that the next host learns every end.
	maxEnds = maxProcesses
)

// table finds processes, alive and ended.
type table struct {
	mu        sync.Mutex
	live      []*Process // in order of their start
	finished  []*Process // in order of their end
	forgotten int        // how many of those, the oldest, have lost their output
	bytes     int        // memory of the others' output
}

// add records a process that was started.
func (t *table) add(p *Process) {
	t.mu.Lock()
	t.live = append(t.live, p)
	t.mu.Unlock()
}

// checkCapacity returns an error unless one more process may start with that exec id.
func (t *table) checkCapacity(execID string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.live) >= maxProcesses {
		return api.Errorf(api.KindExhausted, "%d commands already run in this sandbox", maxProcesses)
	}
	if execID != "" && t.find(func(p *Process) bool { return p.execID == execID }) != nil {
		return api.Errorf(api.KindExists, "exec ID %q is in use", execID)
	}
	return nil
}

// end moves a process to the ended ones. Above the limits it forgets the output of the
// oldest ones, and then the oldest ones.
func (t *table) end(p *Process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.live, p); i >= 0 {
		t.live = slices.Delete(t.live, i, i+1)
	}
	p.logSize = p.Log.Size()
	t.finished = append(t.finished, p)
	t.bytes += p.logSize
	for t.forgotten < len(t.finished)-1 && (t.bytes > maxFinishedBytes || len(t.finished)-t.forgotten > maxFinished) {
		old := t.finished[t.forgotten]
		old.forget()
		t.bytes -= old.logSize
		t.forgotten++
	}
	if over := len(t.finished) - maxEnds; over > 0 {
		t.finished = slices.Delete(t.finished, 0, over)
		t.forgotten -= over // their output was forgotten before
	}
}

// find searches the live processes first, then the ended ones, newest first. The caller
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

// lookup finds a process by its selector, or by its exec id if there is no selector.
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
		return nil, api.Errorf(api.KindInvalid, "the request does not select a process")
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
