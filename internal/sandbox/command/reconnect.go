package command

import (
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// reattach opens the stream of a command again at the next byte, after a save has closed it. It
// returns false if the stream ended for another reason.
func (x *command) reattach() (bool, error) {
	if x.ctx.Err() != nil {
		return false, nil
	}
	saves, err := x.set.Gate.Await(x.ctx)
	if err != nil || saves == x.saves || x.set.suspended() {
		return false, err
	}
	if x.stream != nil {
		x.stream.Close()
	}
	return true, x.connect()
}

// connect opens the stream of a running command at the next byte.
func (x *command) connect() error {
	saves, err := x.set.Gate.Enter(x.ctx)
	if err != nil {
		return err
	}
	defer x.set.Gate.Leave()
	row := x.record()
	ps, err := x.set.guest.Connect(x.ctx, envd.Selector{}, envd.ConnectOptions{ExecID: string(row.ID), Offset: x.at, Keep: true})
	if err != nil {
		return envd.APIError(err)
	}
	first, err := ps.Next()
	if err := checkFirst(row.Sandbox, first, err); err != nil {
		ps.Close()
		return envd.APIError(err)
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

const (
	// reconnectTries and reconnectPause are the number of attempts to reach a guest, and
	// the pause between them. A guest that is still being saved for a daemon that has ended
	// responds after that.
	reconnectTries = 20
	reconnectPause = 250 * time.Millisecond
)

// reconnect is connect to a guest that may be busy with what an earlier daemon asked of it.
func (x *command) reconnect() (err error) {
	for range reconnectTries {
		err = x.connect()
		if k := api.KindOf(err); err == nil || k != api.KindTimeout && k != api.KindUnavailable || x.ctx.Err() != nil || x.set.ending() {
			return err
		}
		pause := time.NewTimer(reconnectPause)
		select {
		case <-pause.C:
		case <-x.ctx.Done():
			pause.Stop()
			return err
		}
	}
	return err
}

// gap returns, once, an error for output that is lost. The command and its record continue.
func (x *command) gap() error {
	n := x.lost
	if x.lost = 0; n == 0 {
		return nil
	}
	row := x.record()
	return api.Errorf(api.KindUnavailable, "command %s in sandbox %s: %d bytes of its output are lost: it wrote more than the buffer during a save", row.ID, row.Sandbox, n).
		WithHint("the command keeps running; attach to it to see further output")
}

// readOn reads to the command's end for its record, if no client does.
func (x *command) readOn() {
	for {
		if ev, err := x.next(); err != nil && !x.goesOn() || err == nil && ev.End != nil {
			return
		}
	}
}

// goesOn reports whether the last error of next was about its output alone.
func (x *command) goesOn() bool {
	on := x.resumes
	x.resumes = false
	return on
}

// expect ends the stream of a command that has not ended by itself in that time.
func (x *command) expect(d time.Duration) {
	x.due = time.Now().Add(d)
	x.overdue = time.AfterFunc(d, x.cancel)
}
