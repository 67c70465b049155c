package process

import (
	"time"

	"hortus.dev/api"
)

// lifetime is how long a command may still live. It is guarded by its process's
// lock.
//
// It stands still while the guest is quiet. A clock of a restored kernel goes on
// from where the host's is: without that, every command with a bound would be found
// overdue and killed at the first look after some hours on a disk.
type lifetime struct {
	timer *time.Timer // nil when there is no bound, or it stands still
	due   time.Time
	left  time.Duration // while it stands still; 0 otherwise
	kill  func()
}

// limitLifetime has a process killed after d.
func (m *Manager) limitLifetime(p *Process, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.life.kill = func() { m.Kill(p, api.CauseTimeout) }
	p.runFor(d)
}

// runFor lets the lifetime go on. The caller holds the lock.
func (p *Process) runFor(d time.Duration) {
	if !p.gone {
		p.life.due, p.life.left = time.Now().Add(d), 0
		p.life.timer = time.AfterFunc(d, p.life.kill)
	}
}

func (p *Process) pauseLifetime() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := &p.life; l.timer != nil && l.timer.Stop() {
		l.timer, l.left = nil, max(1, time.Until(l.due))
	}
}

func (p *Process) resumeLifetime() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.left > 0 {
		p.runFor(p.life.left)
	}
}
