package sandbox

import (
	"context"

	"hortus.dev/api"
)

// Need is what one sandbox takes of its host: the limits that it was promised. Disk
// is that of the host; a sandbox's own disk is memory.
type Need struct {
	Account      string
	Memory, Disk int64
	CPUs         float64
}

// Admission bounds what all sandboxes together take of their host.
type Admission interface {
	// Try takes what is needed where that can be had at once; nil where it cannot.
	Try(Need) (release func())
	// Admit takes it in its turn. told hears why and behind how many it waits, from
	// Admit's own goroutine; it is not called by one that need not wait.
	Admit(ctx context.Context, n Need, told func(api.WaitingEvent)) (release func(), err error)
	// Hold counts a sandbox that is there already.
	Hold(Need) (release func())
}

// need is what a sandbox takes, by its row.
func (l *live) need(ctx context.Context) Need {
	n := Need{Account: l.row.Account, Memory: l.row.Limits.MemoryBytes, CPUs: l.row.Limits.CPUs}
	if n.Account == "" {
		n.Account = api.PrincipalOf(ctx).Account
	}
	if l.workspace {
		n.Disk = l.row.Limits.DiskBytes
	}
	return n
}

// letGo gives back what was taken for a sandbox. It may be called more than once.
func (l *live) letGo() {
	if l.release != nil {
		l.release()
	}
}

// makeRoom takes what a sandbox needs of its host, in its turn. record, which may be
// nil, is called before the first word of a wait. After an error nothing is held, and
// a sandbox that was recorded has ended.
func (m *Manager) makeRoom(ctx context.Context, l *live, record func() error) (err error) {
	a := m.cfg.Admission
	if a == nil || l.release != nil {
		return nil
	}
	n := l.need(ctx)
	if l.release = a.Try(n); l.release != nil {
		return nil
	}
	ctx, end := m.step(ctx, Step{Op: OpAdmit, Sandbox: l.row.ID})
	defer func() { end(Outcome{Isolation: l.row.Isolation, Err: err}) }()
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	if record == nil {
		m.mu.Lock()
		m.unwake[l.row.ID] = cancel
		m.mu.Unlock()
		defer func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.unwake, l.row.ID)
		}()
	}
	var unrecorded error
	told := false
	release, err := a.Admit(waiting, n, func(e api.WaitingEvent) {
		if !told && record != nil {
			l.waits = true
			l.mu.Lock()
			l.unwait = cancel
			l.mu.Unlock()
			if unrecorded = record(); unrecorded != nil {
				cancel()
				return
			}
		}
		told = true
		m.event(l.row.ID, api.EventWaiting, e)
	})
	if err == nil {
		l.release = release
	}
	l.mu.Lock()
	l.waits, l.unwait = false, nil
	reason := l.reason
	if told && reason == "" { // its time begins with it
		m.expireIn(l, l.row.ExpiresAt.Sub(l.row.CreatedAt))
	}
	l.mu.Unlock()
	switch {
	case unrecorded != nil:
		err = unrecorded
	case reason != "":
		err = api.Errorf(api.KindUnavailable, "sandbox %s was ended while it waited for room: %s", l.row.ID, reason)
	case err != nil && record == nil && waiting.Err() != nil && ctx.Err() == nil:
		err = api.Errorf(api.KindUnavailable, "sandbox %s was ended while it waited for room", l.row.ID)
	case err != nil:
		reason = "start failed: " + err.Error()
	default:
		return nil
	}
	l.letGo()
	if l.entered {
		m.settle(l, api.SandboxEnded, reason, nil)
	}
	return err
}

// giveUpWait ends a sandbox that waits for room. It is false for one that does not.
// The caller holds the sandbox's lock, which is free afterwards if it is true.
func (l *live) giveUpWait() bool {
	cancel := l.unwait
	if cancel == nil {
		return false
	}
	l.mu.Unlock()
	cancel()
	<-l.ended
	return true
}
