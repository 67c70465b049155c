package sandbox

import (
	"context"
	"net"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox/tether"
)

// reattach takes up the stream of a command again that a save has cut, at the byte
// that comes next. It is false when the stream broke for another reason.
func (x *running) reattach() (bool, error) {
	if x.ctx.Err() != nil {
		return false, nil
	}
	saves, err := x.live.gate.await(x.ctx)
	if err != nil || saves == x.saves || x.live.isParked() {
		return false, err
	}
	if x.stream != nil {
		x.stream.Close()
	}
	return true, x.connect()
}

// connect opens the stream of a command that runs, at the byte that comes next.
func (x *running) connect() error {
	saves, err := x.live.gate.enter(x.ctx)
	if err != nil {
		return err
	}
	defer x.live.gate.leave()
	id := x.record().ID
	ps, err := x.live.guest.Connect(x.ctx, envd.Selector{}, envd.ConnectOptions{ExecID: string(id), Offset: x.at, Keep: true})
	if err != nil {
		return guestError(err)
	}
	first, err := ps.Next()
	if err := disagreed(x.live.row.ID, first, err); err != nil {
		ps.Close()
		return guestError(err)
	}
	x.stream, x.saves = ps, saves
	if gap := first.Start.Offset - x.at; gap > 0 {
		// The guest kept less than was written meanwhile.
		x.at += gap
		x.mu.Lock()
		x.row.OutputBytes = max(x.row.OutputBytes, x.at)
		x.mu.Unlock()
		x.lost = gap
	}
	return nil
}

// gap gives, once, an error for output that nobody can have any more. The command
// and its record go on.
func (x *running) gap() error {
	n := x.lost
	if x.lost = 0; n == 0 {
		return nil
	}
	row := x.record()
	return api.Errorf(api.KindUnavailable, "command %s in sandbox %s: %d bytes of its output are gone: more was written while the sandbox was saved than is kept", row.ID, row.Sandbox, n).
		WithHint("the command goes on; attach to it for what follows")
}

// readOn reads to the command's end for its record, when nobody else does.
func (x *running) readOn(m *Manager) {
	for {
		if ev, err := x.next(m); err != nil && !x.goesOn() || err == nil && ev.End != nil {
			return
		}
	}
}

// goesOn says whether the last error of next was about its output alone.
func (x *running) goesOn() bool {
	on := x.resumes
	x.resumes = false
	return on
}

// expect ends the stream of a command that has not ended by itself in that time.
func (x *running) expect(d time.Duration) {
	x.due = time.Now().Add(d)
	x.overdue = time.AfterFunc(d, x.cancel)
}

// client makes the client of a guest, whose dials wait while streams are being cut.
func (g *gate) client(link tether.Link) *envd.Client {
	return envd.NewClient(envd.ClientConfig{Dial: func(ctx context.Context) (net.Conn, error) {
		if err := g.pass(ctx); err != nil {
			return nil, err
		}
		return link.Open(ctx)
	}})
}
