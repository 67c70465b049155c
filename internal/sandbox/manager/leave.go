package manager

import (
	"context"
	"errors"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/life"
)

// Leave releases every sandbox that can continue without this daemon, ends the others, and
// waits for everything that the manager started. Another manager's Recover takes them over.
// It is called instead of Close, and gives how many were left.
func (m *Manager) Leave(ctx context.Context) (int, error) {
	all := m.close()
	m.pool.Close()
	var errs []error
	n := 0
	for _, l := range all {
		left, err := m.leave(ctx, l)
		if left {
			n++
		}
		if err != nil && err != errSuspended {
			errs = append(errs, err)
		}
	}
	m.cancel()
	m.wg.Wait()
	return n, errors.Join(errs...)
}

// leave releases one sandbox, or ends it if it cannot continue; it is true in the first
// case.
func (c *core) leave(ctx context.Context, l *live) (bool, error) {
	for {
		state, changed := l.Stand()
		switch {
		case state == life.Queued, state == life.Starting:
			return false, nil // the next owner of its row ends it
		case state == life.Ending, state.Final():
			<-l.ended
			return false, nil
		case state == life.Restoring, state == life.Suspending:
			if err := await(ctx, changed); err != nil {
				return false, err
			}
			continue
		}
		break
	}
	if row := l.Row(); !l.backend.Capabilities().Adopt || row.Task != "" || row.Held {
		_, err := c.end(ctx, l, stopped)
		return false, err
	}
	step, err := c.fire(ctx, l, life.Leave)
	if err != nil {
		return false, err
	}
	if step.Answer != life.Go { // it ended meanwhile
		<-l.ended
		return false, nil
	}
	if !l.shut {
		// No command is half-way between its request and its first event then.
		if err = l.gate.Close(ctx); err == nil {
			defer l.gate.Open()
		}
	}
	l.egress.Close() // the next daemon serves them
	l.commands.Guest().Close()
	if err == nil {
		err = l.machine.Leave(ctx)
	}
	_ = c.do(ctx, l, l.Fire(life.LeaveDone, nil), note{})
	if err != nil {
		return false, api.Errorf(api.KindOf(err), "leave sandbox %s running: %w", l.id, err)
	}
	return true, nil
}
