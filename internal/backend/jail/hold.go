package jail

import (
	"context"
	"net"

	"hortus.dev/api"
)

// hold keeps the connection for as long as which a keeper holds its kernel.
func (m *machine) hold(c *net.UnixConn) {
	m.mu.Lock()
	m.holder = c
	gone := m.gone
	m.mu.Unlock()
	if gone { // it ended, or was let go of, meanwhile
		m.dropHold()
	}
}

// dropHold ends it. A kernel that is still there goes on.
func (m *machine) dropHold() {
	m.mu.Lock()
	c := m.holder
	m.holder = nil
	m.mu.Unlock()
	if c != nil {
		c.Close()
	}
}

// Release has what a save left standing go on. See sandbox.Saver.
func (m *machine) Release(ctx context.Context) error {
	m.dropHold()
	m.mu.Lock()
	ended, standing := m.ended(), m.standing
	m.mu.Unlock()
	if ended {
		return api.Errorf(api.KindUnavailable, "sandbox %s has ended", m.id)
	}
	if !standing {
		return nil
	}
	if err := m.takeTurn(ctx); err != nil {
		return err
	}
	defer m.endTurn()
	if err := m.setFrozen(ctx, false); err != nil {
		return err
	}
	m.mu.Lock()
	m.standing = false
	m.mu.Unlock()
	return nil
}
