package jail

import (
	"context"
	"net"
	"sync"
	"time"

	"hortus.dev/internal/sandbox"
)

// hold is the connection that makes a keeper hold its kernel after a save.
type hold struct {
	mu     sync.Mutex
	conn   *net.UnixConn
	closed bool
}

// keep keeps the connection until release or close.
func (h *hold) keep(c *net.UnixConn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		c.Close()
		return
	}
	h.conn = c
}

// held reports whether the keeper holds its kernel, and answers nobody else.
func (h *hold) held() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.conn != nil
}

// release closes the connection: a kernel that is still there resumes.
func (h *hold) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conn != nil {
		h.conn.Close()
		h.conn = nil
	}
}

// close is release, also for connections to come.
func (h *hold) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.release()
}

// Release resumes what a save left stopped. See sandbox.Machine.
func (m *machine) Release(ctx context.Context) error {
	m.hold.release()
	m.mu.Lock()
	over, standing := m.ended(), m.standing
	m.mu.Unlock()
	if over {
		return ended(m.id)
	}
	if !standing {
		return nil
	}
	if err := m.turn.take(ctx, m.id); err != nil {
		return err
	}
	defer m.turn.end()
	if err := m.setFrozen(ctx, false); err != nil {
		return err
	}
	m.setStanding(false)
	return nil
}

func (m *machine) setStanding(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.standing = on
}

// standstill calls the caller's function while the kernel is held, and resumes the kernel if it is not to stay
// paused. It returns how long that took. The keeper says that the kernel is paused; the host freezes both, because
// neither is trusted.
func (m *machine) standstill(ctx context.Context, o sandbox.SaveOptions) (time.Duration, error) {
	start := time.Now()
	err := m.frozen(ctx, o.Standstill)
	if err == nil {
		// A kill thaws the kernel for a moment, in which it may have written.
		err = m.stillRunning()
	}
	if err != nil || !o.Hold {
		m.hold.release()
	}
	return time.Since(start), err
}

// frozen calls a function while every process is frozen.
func (m *machine) frozen(ctx context.Context, do func(context.Context) error) (err error) {
	if err := m.turn.take(ctx, m.id); err != nil {
		return err
	}
	defer m.turn.end()
	if err := m.setFrozen(ctx, true); err != nil {
		return err
	}
	defer func() {
		if terr := m.setFrozen(context.WithoutCancel(ctx), false); terr != nil && err == nil {
			err = terr
		}
	}()
	return do(ctx)
}
