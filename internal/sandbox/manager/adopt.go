package manager

import (
	"context"
	"errors"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/life"
	"hortus.dev/internal/sandbox/uptime"
	"time"

	"hortus.dev/api"
)

// errRefused is the reason why a sandbox of an earlier daemon must not continue.
type errRefused string

func (e errRefused) Error() string { return string(e) }

// errUnstored reports that a sandbox could be taken over, but not so that it was noted.
type errUnstored struct{ error }

func (e errUnstored) Unwrap() error { return e.error }

// refuses returns why a sandbox that may still run is not taken over; nil when it is.
func refuses(row api.Sandbox, b sandbox.Backend) error {
	switch {
	case row.State == api.SandboxStarting:
		return errRefused("the daemon ended while the sandbox was starting")
	case row.Task != "":
		return errRefused("the daemon ended, and with it the task that used the sandbox")
	case row.Held:
		return errRefused("the daemon ended, and with it the connection that held the sandbox")
	case !b.Capabilities().Adopt:
		return errRefused("the daemon ended without stopping the sandbox, and a sandbox of the " + b.Name() + " backend cannot be taken over")
	}
	return nil
}

// lostWhy returns why a sandbox is lost that was not taken over.
func lostWhy(err error) string {
	var refused errRefused
	switch {
	case errors.As(err, &refused):
		return string(refused)
	case api.KindOf(err) == api.KindNotFound:
		return "the daemon ended without stopping the sandbox, and the sandbox ended before the next daemon started"
	}
	return "the daemon ended without stopping the sandbox, and the next daemon could not take it over: " + err.Error()
}

// adopt takes over a sandbox of an owner that has ended: its machine, its deadline, its commands.
func (m recovery) adopt(ctx context.Context, b sandbox.Backend, row api.Sandbox) error {
	if err := refuses(row, b); err != nil {
		return err
	}
	a, err := b.Adopt(ctx, row.ID)
	if err != nil {
		return err
	}
	from, left := row.Owner, uptime.Clock{Now: m.cfg.Now, Uptime: m.cfg.Uptime}.Left(row)
	row.Owner, row.ExpiresAt = m.cfg.Owner, m.wall().Add(left)
	row.Snapshot = m.origins(ctx, row)
	state, paused := life.Running, row.State == api.SandboxPaused
	if paused {
		state = life.Paused
	}
	l := m.newLive(row, b, state)
	l.layers, l.asked, l.workspace = a.Spec.Layers, a.Spec.Asked, a.Spec.Workspace
	l.boot(a.Machine, nil)
	l.StartClock(left)
	fail := func(err error) error {
		if lerr := a.Machine.Leave(context.WithoutCancel(ctx)); lerr != nil {
			m.log.Error("a sandbox that could not be adopted was not released", "sandbox", row.ID, "error", lerr)
		}
		return err
	}
	// The row counts: a pause or a resume that was not acknowledged is undone, and a machine
	// that waits for a save that is not going to complete is resumed.
	switch {
	case paused && !a.Paused:
		err = a.Machine.Pause(ctx)
	case !paused && a.Paused:
		err = a.Machine.Resume(ctx)
	}
	if err == nil && paused {
		// Its output cannot be read before it is resumed.
		err = l.gate.Close(ctx)
		l.shut = err == nil
	}
	if err == nil {
		err = m.register(l, true)
	}
	if err != nil {
		return fail(err)
	}
	if err := m.cfg.Rows.UpdateSandbox(context.WithoutCancel(ctx), row); err != nil {
		m.remove(l)
		return fail(errUnstored{err})
	}
	n := m.run.Adopt(ctx, l.commands, func(row api.Exec) time.Duration { return time.Duration(row.TimeoutMS) * time.Millisecond })
	m.event(row.ID, api.EventAdopted, api.AdoptedEvent{
		From: from, To: m.cfg.Owner, Cause: "the previous daemon ended and left the sandbox running", State: row.State, Commands: n,
	})
	m.log.Info("sandbox adopted", "sandbox", row.ID, "from", from, "commands", n, "left", left.Round(time.Second))
	m.adoptEgress(l)
	m.spawn(func() { watch{m.core}.run(l) })
	return nil
}

// origins returns the snapshot that a sandbox started from, where its row names one
// that it was to be paused in and was not.
func (m recovery) origins(ctx context.Context, row api.Sandbox) api.SnapshotID {
	if row.Snapshot == "" || m.cfg.Snapshots == nil {
		return row.Snapshot
	}
	s, err := m.cfg.Snapshots.Snapshot(ctx, row.Snapshot)
	if err == nil && s.Paused && s.Sandbox == row.ID {
		return s.Parent
	}
	return row.Snapshot
}
