package sandbox

import (
	"context"
	"errors"
	"time"

	"hortus.dev/api"
)

// Adopter is a Backend whose machines outlive the process that started them.
type Adopter interface {
	Backend

	// Adopt takes over the machine of a sandbox that a process started which is gone.
	// It must not be called for one that this process runs.
	//
	// Errors: KindNotFound when it has ended, or was never there; KindConflict when
	// what is there is not what was started; KindUnsupported, KindTimeout,
	// KindInternal. After one the machine is as it was; Reclaim destroys it.
	Adopt(ctx context.Context, id api.SandboxID) (Adopted, error)
}

// Adopted is a machine that was taken over.
type Adopted struct {
	// Machine is a Leaver.
	Machine Machine
	// Spec is what it was started with, but for its environment.
	Spec Spec
	// Paused says that its processes stand still.
	Paused bool
}

// Leaver is a Machine that a process can let go of while it runs; an Adopter takes it
// over.
type Leaver interface {
	Machine

	// Leave gives up everything that this process holds of the machine, which goes
	// on. Its link is closed; no other method may be called afterwards. An error of
	// KindUnavailable says that the machine has ended.
	Leave(ctx context.Context) error
}

// errRefused says why a sandbox of a daemon that is gone is not to go on.
type errRefused string

func (e errRefused) Error() string { return string(e) }

// errUnstored says that a sandbox could be taken over, but not so that it was noted.
type errUnstored struct{ error }

func (e errUnstored) Unwrap() error { return e.error }

// refuses says why a sandbox that may still run is not taken over; nil when it is.
func refuses(row api.Sandbox, b Backend) error {
	switch _, ok := b.(Adopter); {
	case row.State == api.SandboxStarting:
		return errRefused("its daemon ended while it was being started")
	case row.Task != "":
		return errRefused("its daemon ended, and with it the task that it worked for")
	case row.Held:
		return errRefused("its daemon ended, and with it the connection that held it")
	case !ok:
		return errRefused("its daemon ended without stopping it, and a sandbox of the " + b.Name() + " backend cannot be taken over")
	}
	return nil
}

// lostWhy says why a sandbox is lost that was not taken over.
func lostWhy(err error) string {
	var refused errRefused
	switch {
	case errors.As(err, &refused):
		return string(refused)
	case api.KindOf(err) == api.KindNotFound:
		return "its daemon ended without stopping it, and it ended too before another daemon was there"
	}
	return "its daemon ended without stopping it, and it could not be taken over: " + err.Error()
}

// adopt takes over a sandbox of an owner that is gone: its machine, its deadline, its
// commands.
func (m *Manager) adopt(ctx context.Context, b Backend, row api.Sandbox) error {
	if err := refuses(row, b); err != nil {
		return err
	}
	a, err := b.(Adopter).Adopt(ctx, row.ID)
	if err != nil {
		return err
	}
	from, left := row.Owner, m.left(row)
	row.Owner, row.ExpiresAt = m.cfg.Owner, m.wall().Add(left)
	row.Snapshot = m.origins(ctx, row)
	l := newLive(row, b)
	l.layers, l.asked, l.workspace = a.Spec.Layers, a.Spec.Asked, a.Spec.Workspace != nil
	l.run(a.Machine)
	l.clock.set(left)
	l.steady()
	fail := func(err error) error {
		if lerr := a.Machine.(Leaver).Leave(context.WithoutCancel(ctx)); lerr != nil {
			m.log.Error("a sandbox that could not be taken over was not let go of", "sandbox", row.ID, "error", lerr)
		}
		return err
	}
	// What the row says was promised: a pause that nobody was told of is undone, as
	// is a resume, and a stand for a save that will not come.
	switch paused := row.State == api.SandboxPaused; {
	case paused && !a.Paused:
		err = a.Machine.Pause(ctx)
	case !paused && a.Paused:
		err = a.Machine.Resume(ctx)
	}
	if err == nil && row.State == api.SandboxPaused {
		// Nobody can read what it says before it goes on.
		err = l.gate.close(ctx)
		l.shut = err == nil
	}
	if err == nil {
		err = m.admit(l)
	}
	if err != nil {
		return fail(err)
	}
	if err := m.cfg.Rows.UpdateSandbox(context.WithoutCancel(ctx), row); err != nil {
		m.forget(l)
		return fail(errUnstored{err})
	}
	n := m.takeUp(ctx, l, func(row api.Exec) time.Duration { return time.Duration(row.TimeoutMS) * time.Millisecond })
	m.event(row.ID, api.EventAdopted, api.AdoptedEvent{
		From: from, To: m.cfg.Owner, Cause: "its daemon ended and left it running", State: row.State, Commands: n,
	})
	m.log.Info("sandbox taken over", "sandbox", row.ID, "from", from, "commands", n, "left", left.Round(time.Second))
	l.steady()
	m.wg.Go(func() { m.watch(l) })
	return nil
}

// origins gives the snapshot that a sandbox started from, where its row names one
// that it was to be paused in and was not.
func (m *Manager) origins(ctx context.Context, row api.Sandbox) api.SnapshotID {
	if row.Snapshot == "" || m.cfg.Snapshots == nil {
		return row.Snapshot
	}
	s, err := m.cfg.Snapshots.Snapshot(ctx, row.Snapshot)
	if err == nil && s.Paused && s.Sandbox == row.ID {
		return s.Parent
	}
	return row.Snapshot
}

// Leave lets go of every sandbox that can go on without this daemon, ends the others,
// and waits for everything that the manager started. Another manager's Recover takes
// them over. It is for the place of Close, and gives how many were left.
func (m *Manager) Leave(ctx context.Context) (int, error) {
	m.mu.Lock()
	m.closed = true
	all := make([]*live, 0, len(m.live))
	for _, l := range m.live {
		all = append(all, l)
	}
	m.mu.Unlock()
	m.pool.close()
	var errs []error
	left := 0
	for _, l := range all {
		ok, err := m.leave(ctx, l)
		if ok {
			left++
		}
		if err != nil && err != errParked {
			errs = append(errs, err)
		}
	}
	m.cancel()
	m.wg.Wait()
	return left, errors.Join(errs...)
}

// leave lets go of one sandbox, or ends it where it cannot go on; it is true in the
// first case.
func (m *Manager) leave(ctx context.Context, l *live) (bool, error) {
	l.mu.Lock()
	for l.park != nil { // what is paused to disk goes on by itself
		p := l.park
		l.mu.Unlock()
		select {
		case <-p.done:
		case <-ctx.Done():
			return false, ctx.Err()
		}
		l.mu.Lock()
	}
	leaver, ok := l.machine.(Leaver)
	_, adopts := l.backend.(Adopter)
	switch {
	case l.machine == nil: // it is starting; who finds its row ends it
		l.mu.Unlock()
		return false, nil
	case l.settled:
		l.mu.Unlock()
		<-l.ended
		return false, nil
	case !ok || !adopts || l.row.Task != "" || l.row.Held || l.reason != "" || l.row.State == api.SandboxStarting:
		l.mu.Unlock()
		_, err := m.end(ctx, l, stopped)
		return false, err
	}
	shut := l.shut
	l.mu.Unlock()
	if !shut {
		// No command is half-way between its request and its first event then.
		if err := l.gate.close(ctx); err != nil {
			return false, err
		}
		defer l.gate.open()
	}
	l.mu.Lock()
	if l.settled || l.reason != "" { // meanwhile
		l.mu.Unlock()
		<-l.ended
		return false, nil
	}
	l.handed, l.settled = true, true
	m.correct(l)
	row, guest, said := l.row, l.guest, l.said
	execs := make([]*running, 0, len(l.execs))
	for _, x := range l.execs {
		execs = append(execs, x)
	}
	l.mu.Unlock()
	m.storeSandbox(row)
	for _, x := range execs {
		x.letOff(m)
	}
	guest.Close()
	err := leaver.Leave(ctx)
	l.awaitSaid(said)
	m.forget(l)
	l.steady()
	close(l.ended)
	if err != nil {
		return false, api.Errorf(api.KindOf(err), "leave sandbox %s running: %w", row.ID, err)
	}
	return true, nil
}

// wasHanded says whether the sandbox was left to the next daemon.
func (l *live) wasHanded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.handed
}

// Held notes that a sandbox lives for as long as a connection of this daemon's does:
// no other daemon takes it over.
func (m *Manager) Held(ctx context.Context, id api.SandboxID) error {
	_, err := m.change(ctx, id, func(l *live) error {
		l.row.Held = true
		return nil
	})
	return err
}

const (
	// backTries and backRest are how often and how long apart a guest is asked for a
	// command that runs in it before it is given up. One that is being saved for a
	// daemon that is gone answers when that is over.
	backTries = 20
	backRest  = 250 * time.Millisecond
)

// comeBack is connect to a guest that may be busy with what an earlier daemon asked of
// it.
func (x *running) comeBack() (err error) {
	for range backTries {
		err = x.connect()
		if k := api.KindOf(err); err == nil || k != api.KindTimeout && k != api.KindUnavailable || x.ctx.Err() != nil || x.live.ending() {
			return err
		}
		if werr := wait(x.ctx, after(backRest)); werr != nil {
			return err
		}
	}
	return err
}

func after(d time.Duration) <-chan struct{} {
	ch := make(chan struct{})
	time.AfterFunc(d, func() { close(ch) })
	return ch
}
