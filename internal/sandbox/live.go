package sandbox

import (
	"context"
	"net"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/storage/layer"
)

// live is a sandbox that has not ended. Its machine is nil while it starts.
type live struct {
	backend Backend
	moved   chan struct{} // holds one token when the deadline has moved
	ended   chan struct{} // closed once the final row is stored, or it is paused to disk
	ready   chan struct{} // closed by steady
	once    sync.Once     // of steady
	gate    *gate
	// What it was made of, beside its row.
	layers    []layer.Digest
	asked     Asked
	workspace bool
	// What was taken of the host for it, and whether it is in the table: the
	// business of who makes it, until it is there.
	release func()
	waits   bool
	entered bool

	mu      sync.Mutex
	row     api.Sandbox
	machine Machine
	guest   *envd.Client
	execs   map[api.ExecID]*running
	begun   map[api.ExecID]chan struct{} // commands that are being started; closed when that is over
	reason  string                       // why somebody is ending it; empty when it ends by itself
	settled bool
	ports   int           // streams to ports that are open
	park    *park         // a pause to disk on its way
	parked  bool          // it is paused to disk: another live goes on with it
	handed  bool          // it goes on without this daemon: the next one has it
	shut    bool          // the gate is, until it goes on
	said    chan struct{} // closed once the log has that it runs; nil before
	hurry   chan struct{} // holds one token when somebody waits for that
	clock   clock         // counts to the deadline that the row tells
	samples samples
	unwait  context.CancelFunc // gives up its wait for room; nil when it does not wait
	born    context.Context    // marks the step that made it, until the first command
}

// awaitSaid waits until the log has that the sandbox runs, where it will.
func (l *live) awaitSaid(said chan struct{}) {
	if said == nil {
		return
	}
	select {
	case l.hurry <- struct{}{}:
	default: // somebody asked before
	}
	<-said
}

// say appends a change of state to the log, after the beginning.
func (l *live) say(m *Manager, e api.SandboxStateEvent) { l.tell(m, api.EventSandboxState, e) }

// tell appends a fact to the sandbox's log, after the beginning.
func (l *live) tell(m *Manager, t api.EventType, data any) {
	l.mu.Lock()
	said := l.said
	l.mu.Unlock()
	l.awaitSaid(said)
	m.event(l.row.ID, t, data)
}

func newLive(row api.Sandbox, b Backend) *live {
	return &live{
		row: row, backend: b, execs: map[api.ExecID]*running{}, begun: map[api.ExecID]chan struct{}{},
		gate: &gate{}, moved: make(chan struct{}, 1), hurry: make(chan struct{}, 1), ended: make(chan struct{}), ready: make(chan struct{}),
	}
}

// run gives the sandbox its machine.
func (l *live) run(machine Machine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.machine, l.guest = machine, l.gate.client(machine.Link())
}

func (l *live) snapshot() api.Sandbox {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.row
}

// watch waits for the end of a machine or of its time. It is the one place that
// sees a machine end by itself.
func (m *Manager) watch(l *live) {
	deadline := time.NewTimer(l.left())
	defer deadline.Stop()
	look := time.NewTicker(sampleEvery)
	defer look.Stop()
	tries := 0 // of a pause at the deadline
	var cpu <-chan time.Time
	if budget := l.row.Limits.CPUTimeMS; budget > 0 {
		// The budget is of the whole tree, so the host adds it up; a tenth of
		// a second is the most that a sandbox can overdraw per processor.
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		cpu = ticker.C
	}
	for {
		select {
		case <-l.ended:
			return
		case <-l.machine.Done():
			if l.awaitPark() {
				return
			}
			l.mu.Lock()
			reason := l.reason
			l.mu.Unlock()
			if reason == "" {
				m.lost(l)
			}
			// Whoever is ending it settles the row with its proof; where that
			// failed half-way it is tried again here.
			select {
			case <-l.ended:
			case <-time.After(killTimeout):
				if _, err := m.end(context.WithoutCancel(m.ctx), l, reason); err != nil && err != errParked {
					m.log.Error("ended sandbox not cleaned up; trying again", "sandbox", l.row.ID, "error", err)
					continue
				}
			}
			return
		case <-l.moved:
			deadline.Reset(l.left())
			tries = 0
		case <-look.C:
			m.sample(l)
			m.restate(l)
		case <-cpu:
			ctx, cancel := context.WithTimeout(m.ctx, 5*time.Second)
			s, err := l.machine.Stats(ctx)
			cancel()
			if err == nil && s.CPUTimeMS >= l.row.Limits.CPUTimeMS {
				m.end(context.WithoutCancel(m.ctx), l, api.CauseCPUTime)
				return
			}
		case <-deadline.C:
			if left := l.left(); left > 0 { // it has moved
				deadline.Reset(left)
				continue
			}
			reason := "expired"
			if l.snapshot().OnExpiry.Pauses() {
				err := m.pauseExpired(l)
				if err == nil {
					return
				}
				if tries++; tries < pauseTries && api.KindOf(err) != api.KindUnsupported {
					m.log.Error("expired sandbox not paused; trying again", "sandbox", l.row.ID, "error", err)
					deadline.Reset(pauseAgain)
					continue
				}
				reason = "expired, and could not be paused to disk: " + err.Error()
			}
			if _, err := m.end(context.WithoutCancel(m.ctx), l, reason); err == errParked {
				return
			} else if err != nil {
				m.log.Error("expired sandbox not killed; trying again", "sandbox", l.row.ID, "error", err)
				deadline.Reset(time.Second)
				continue
			}
			return
		}
	}
}

// lost settles a sandbox whose guest ended without being told to.
func (m *Manager) lost(l *live) {
	l.mu.Lock()
	l.reason = l.machine.Cause()
	if l.reason == "" {
		l.reason = "guest ended"
	}
	reason := l.reason
	l.mu.Unlock()
	// The guest is gone; Kill frees the rest and proves that nothing is left.
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	proof, err := l.machine.Kill(ctx)
	if err != nil {
		m.log.Error("lost sandbox not cleaned up", "sandbox", l.row.ID, "error", err)
		reason += "; not cleaned up: " + err.Error()
	}
	state := api.SandboxLost
	switch reason {
	case api.CauseMemory, api.CauseDisk, api.CauseFull:
		state = api.SandboxEnded // a limit did what it is for
	}
	m.settle(l, state, reason, &proof)
}

// killTimeout bounds a kill with proof.
const killTimeout = 20 * time.Second

// end kills a sandbox for a reason and settles its row. A second end waits for
// the first and gives its proof too. One that is being paused to disk is waited
// for, and left alone with errParked; a kill gives the pause up where it still can.
func (m *Manager) end(ctx context.Context, l *live, reason string) (api.Proof, error) {
	l.mu.Lock()
	for l.park != nil {
		p := l.park
		l.mu.Unlock()
		if reason == api.CauseKilled {
			p.cancel()
		}
		<-p.done
		l.mu.Lock()
	}
	if l.parked {
		l.mu.Unlock()
		return api.Proof{}, errParked
	}
	machine := l.machine
	if l.reason == "" {
		l.reason = reason
	}
	reason = l.reason
	if machine == nil && l.giveUpWait() {
		return api.Proof{How: "it waited for room on the host: nothing of it ran"}, nil
	}
	l.mu.Unlock()
	if machine == nil {
		return api.Proof{}, api.Errorf(api.KindConflict, "sandbox %s is still starting", l.row.ID)
	}
	killCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	killCtx, told := m.step(killCtx, Step{Op: OpKill, Sandbox: l.row.ID})
	proof, err := machine.Kill(killCtx)
	told(Outcome{Isolation: l.row.Isolation, Err: err})
	if err != nil {
		return proof, api.Errorf(api.KindOf(err), "kill sandbox %s: %w", l.row.ID, err)
	}
	m.settle(l, api.SandboxEnded, reason, &proof)
	return proof, nil
}

// settle stores the final row, once, and ends what hung on the sandbox.
func (m *Manager) settle(l *live, state api.SandboxState, reason string, proof *api.Proof) {
	l.mu.Lock()
	if l.settled {
		l.mu.Unlock()
		<-l.ended
		return
	}
	l.settled = true
	l.row.State, l.row.Reason, l.row.EndedAt = state, reason, m.now().UTC()
	row, guest, machine := l.row, l.guest, l.machine
	execs := make([]*running, 0, len(l.execs))
	for _, x := range l.execs {
		execs = append(execs, x)
	}
	l.mu.Unlock()

	if machine != nil {
		machine.Link().Close()
	}
	if guest != nil {
		guest.Close()
	}
	for _, x := range execs {
		x.abandon(m, reason)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := m.cfg.Rows.UpdateSandbox(ctx, row); err != nil {
		m.log.Error("end of sandbox not stored", "sandbox", row.ID, "error", err)
	}
	l.say(m, api.SandboxStateEvent{State: state, Reason: reason, Proof: proof})
	m.forget(l)
	l.steady()
	close(l.ended)
}

// Kill ends a sandbox and proves that nothing of it is left. Killing one that
// has ended is no error: the proof is of what was found, nothing. One that is being
// resumed from disk is waited for.
func (m *Manager) Kill(ctx context.Context, id api.SandboxID) (api.Sandbox, api.Proof, error) {
	for {
		m.mu.Lock()
		before := m.woken
		m.mu.Unlock()
		row, proof, err := m.kill(ctx, id)
		m.mu.Lock()
		over, giveUp, moved := m.waking[id], m.unwake[id], m.woken != before
		m.mu.Unlock()
		if api.KindOf(err) != api.KindConflict || over == nil && !moved {
			return row, proof, err
		}
		if over == nil {
			continue // a resume that was met is over already
		}
		if giveUp != nil { // it waits for room: nobody waits for that
			giveUp()
		}
		select {
		case <-over:
		case <-ctx.Done():
			return row, proof, ctx.Err()
		}
	}
}

func (m *Manager) kill(ctx context.Context, id api.SandboxID) (api.Sandbox, api.Proof, error) {
	l, row, err := m.find(ctx, id)
	if l == nil {
		if err == nil && row.State == api.SandboxPaused && row.Snapshot != "" {
			return m.killParked(ctx, id)
		}
		if err == nil && !row.State.Final() {
			err = api.Errorf(api.KindConflict, "sandbox %s belongs to another daemon", id)
		}
		return row, api.Proof{How: "it had ended before"}, err
	}
	proof, err := m.end(ctx, l, api.CauseKilled)
	if err == errParked {
		return m.killParked(ctx, id)
	}
	return l.snapshot(), proof, err
}

// SetTTL moves the deadline to ttl from now. It may come nearer.
func (m *Manager) SetTTL(ctx context.Context, id api.SandboxID, ttl time.Duration) (api.Sandbox, error) {
	if ttl <= 0 {
		return api.Sandbox{}, api.Errorf(api.KindInvalid, "time to live of %s is not above 0", ttl)
	}
	if _, err := checkTTL(ttl.Milliseconds()); err != nil {
		return api.Sandbox{}, err
	}
	return m.change(ctx, id, func(l *live) error {
		m.expireIn(l, ttl)
		return nil
	})
}

// Pause freezes a sandbox; Resume lets it go on. Its deadline still holds.
func (m *Manager) Pause(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	return m.change(ctx, id, func(l *live) error {
		if err := l.machine.Pause(ctx); err != nil {
			return err
		}
		l.row.State = api.SandboxPaused
		return nil
	})
}

// Resume lets a paused sandbox go on, from memory or from disk.
func (m *Manager) Resume(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	if _, ok := m.lookup(id); !ok {
		row, err := m.cfg.Rows.Sandbox(ctx, id)
		if err == nil && row.State == api.SandboxPaused && row.Snapshot != "" {
			return m.wake(ctx, id, 0)
		}
	}
	return m.change(ctx, id, func(l *live) error {
		if err := l.machine.Resume(ctx); err != nil {
			return err
		}
		l.row.State = api.SandboxRunning
		if l.shut {
			l.gate.open()
			l.shut = false
		}
		return nil
	})
}

// change applies f to a live sandbox that has started and stores the row.
func (m *Manager) change(ctx context.Context, id api.SandboxID, f func(*live) error) (api.Sandbox, error) {
	l, err := m.here(ctx, id)
	if err != nil {
		return api.Sandbox{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.park != nil {
		return l.row, api.Errorf(api.KindConflict, "sandbox %s is being paused to disk", id)
	}
	if l.machine == nil || l.settled || l.reason != "" {
		return l.row, api.Errorf(api.KindConflict, "sandbox %s is starting or ending", id)
	}
	before := l.row.State
	if err := f(l); err != nil {
		return l.row, err
	}
	m.correct(l)
	if err := m.cfg.Rows.UpdateSandbox(ctx, l.row); err != nil {
		return l.row, err
	}
	if l.row.State != before {
		l.awaitSaid(l.said)
		m.event(id, api.EventSandboxState, api.SandboxStateEvent{State: l.row.State})
	}
	return l.row, nil
}

// Stats tells what a sandbox uses now.
func (m *Manager) Stats(ctx context.Context, id api.SandboxID) (api.Stats, error) {
	l, err := m.here(ctx, id)
	if err != nil {
		return api.Stats{}, err
	}
	if l.snapshot().State == api.SandboxStarting {
		return api.Stats{}, api.Errorf(api.KindConflict, "sandbox %s is %s", id, api.SandboxStarting)
	}
	return l.machine.Stats(ctx)
}

// Guest opens a raw stream to a sandbox's guest, for a door's proxy. It has a method
// Ended, as ExecStream has.
func (m *Manager) Guest(ctx context.Context, id api.SandboxID) (net.Conn, error) {
	l, err := m.running(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := l.gate.pass(ctx); err != nil {
		return nil, err
	}
	c, err := l.machine.Link().Open(ctx)
	if err != nil {
		return nil, err
	}
	return &guestConn{Conn: c, ended: l.ended}, nil
}

// Client gives the client of a sandbox's guest. It is shared: do not close it.
func (m *Manager) Client(ctx context.Context, id api.SandboxID) (*envd.Client, error) {
	l, err := m.running(ctx, id)
	if err != nil {
		return nil, err
	}
	return l.guest, nil
}
