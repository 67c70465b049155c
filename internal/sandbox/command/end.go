package command

import (
	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox"
)

// ended has the end that the guest reported recorded, and gives its event once it
// is. The record's word is what is passed on: who recorded the end first knew how it
// came to be.
func (x *command) ended(end envd.EndEvent) (*envd.ProcessEvent, error) {
	row, err := x.recordOf(end)
	x.drain()
	if x.viewer && row.ID != "" {
		x.mu.Lock()
		x.row = row
		x.mu.Unlock()
	}
	switch {
	case err != nil:
		return nil, api.Errorf(api.KindOf(err), "command %s in sandbox %s ended with exit code %d, which could not be stored: %w",
			x.row.ID, x.row.Sandbox, end.ExitCode, err)
	case end.ExitCode < 0 || end.ExitCode > 255:
		return nil, api.Errorf(api.KindUnavailable, "the guest reports the invalid exit code %d", end.ExitCode)
	case row.State != api.ExecExited:
		// The sandbox ended at the same time, and that was recorded.
		return nil, api.Errorf(api.KindUnavailable, "command %s in sandbox %s: its exit code is unknown: %s", row.ID, row.Sandbox, row.Exit.Cause)
	}
	end.ExitCode, end.Cause = int32(row.Exit.Code), row.Exit.Cause
	return &envd.ProcessEvent{End: &end}, nil
}

// recordOf returns the record of a command that has ended according to the guest. The reader
// for the record may be slower than a viewer, or blocked by its client: the first that
// observes the end records it.
func (x *command) recordOf(end envd.EndEvent) (api.Exec, error) {
	id := x.record().ID
	for {
		keeper, wait := x, (<-chan struct{})(nil)
		if x.viewer {
			keeper, wait = x.set.keeper(id)
		}
		if keeper != nil {
			return keeper.exited(end, x.at)
		}
		if wait == nil {
			row, err := x.c.cfg.Rows.Exec(x.ctx, id)
			if err == nil && row.State == api.ExecRunning {
				err = api.Errorf(api.KindUnavailable, "its record was lost")
			}
			return row, err
		}
		select {
		case <-wait:
		case <-x.ctx.Done():
			return x.record(), x.ctx.Err()
		}
	}
}

// exited records the end that the guest reported, after at bytes of output, unless
// there is one already. It gives the record as it is stored.
func (x *command) exited(end envd.EndEvent, at int64) (api.Exec, error) {
	x.conclude(func() (api.ExecState, api.Exit) {
		if end.ExitCode < 0 || end.ExitCode > 255 {
			return api.ExecUnknown, api.Exit{Code: -1, Cause: api.CauseLost}
		}
		x.mu.Lock()
		x.row.OutputBytes = max(x.row.OutputBytes, at)
		x.mu.Unlock()
		return api.ExecExited, x.exit(&end)
	})
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.row, x.unstored
}

// finish records an end that no guest reported, unless there is one already.
func (x *command) finish(state api.ExecState, exit api.Exit) {
	if !x.viewer {
		x.conclude(func() (api.ExecState, api.Exit) { return state, exit })
	}
}

// conclude stores the end once; how returns it. It returns when the end is stored, also by
// another reader.
func (x *command) conclude(how func() (api.ExecState, api.Exit)) {
	x.mu.Lock()
	mine := !x.done
	x.done = true
	x.mu.Unlock()
	if !mine {
		<-x.stored
		return
	}
	if x.overdue != nil {
		x.overdue.Stop() // x.done keeps a save from starting it again
	}
	state, exit := how()
	x.mu.Lock()
	x.row.State, x.row.Exit, x.row.EndedAt = state, exit, x.c.cfg.Now().UTC()
	row := x.row
	x.mu.Unlock()
	err := x.c.storeEnd(row)
	x.mu.Lock()
	x.unstored = err
	x.mu.Unlock()
	close(x.stored)
	if x.end != nil {
		x.end(sandbox.Outcome{Sandbox: row.Sandbox, Isolation: x.set.Sandbox.Row().Isolation, Exit: &row.Exit})
	}
	x.set.remove(row.ID)
}

// detach stores how much of a command's output came, and gives it up: it continues with
// its sandbox, without this one. An end that is being recorded is waited for.
func (x *command) detach() {
	x.mu.Lock()
	done := x.done
	if !done {
		_ = x.c.store(x.row) // it has been logged; what came is in the guest
	}
	x.mu.Unlock()
	if done {
		<-x.stored
	}
	x.cancel()
}
