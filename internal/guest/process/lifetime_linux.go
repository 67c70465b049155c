package process

import (
	"time"

	"hortus.dev/api"
)

// lifetime is the remaining time of a command with a timeout. The lock of its process
// guards it.
//
// It is paused while the guest is quiet. Otherwise a guest that was saved for some hours
// would kill every command with a timeout, because the clock of a restored kernel jumps to
// the host's time.
type lifetime struct {
	timer *time.Timer // nil if there is no limit, or it is paused
	due   time.Time
	left  time.Duration // while it is paused; 0 otherwise
	kill  func()
}

// limitLifetime kills a process after d.
func (m *Manager) limitLifetime(p *Process, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.life.kill = func() { m.Kill(p, api.CauseTimeout) }
	p.startLifetime(d)
}

// startLifetime starts the timer. The caller holds the lock.
func (p *Process) startLifetime(d time.Duration) {
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
		p.startLifetime(p.life.left)
	}
}
