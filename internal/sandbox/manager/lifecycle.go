package manager

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/command"
	"hortus.dev/internal/sandbox/life"
	"hortus.dev/internal/sandbox/outgoing"
	"hortus.dev/internal/sandbox/tether"
)

// lifecycle changes the states of sandboxes: it fires their events, and performs the effects that the
// table of package life lists for each change.
type lifecycle struct {
	table   *table
	facts   facts
	rows    sandbox.Rows
	run     *command.Commands
	egress  sandbox.EgressServer
	watcher sandbox.Watcher
	now     func() time.Time
	log     *slog.Logger
	// watch waits for the end of a sandbox, and returns after it. It is set once, by New: what a deadline
	// requests is done by types that change states themselves.
	watch func(*instance)
}

// instance makes a sandbox of its row, in a state. It is in no table yet.
func (c *lifecycle) instance(row api.Sandbox, b sandbox.Backend, state life.State) *instance {
	in := &instance{
		Sandbox: life.New(c.rows, c.now, row, state), id: row.ID, backend: b, gate: &life.Gate{}, ended: make(chan struct{}), told: life.NewAnnouncement(),
	}
	in.commands = command.NewSet(in.Sandbox, in.gate, in.ended)
	in.egress = outgoing.New(outgoing.Config{
		Server: c.egress, Row: in.Row, Link: func() tether.Link { return in.machine.Link() },
		Commands: func() []string { return in.commands.Running(shownCommands, shownCommand) },
	})
	return in
}

// fire delivers an event to a sandbox when its state takes it: it waits for work that is
// under way. The step's effects are left to the caller.
func (c *lifecycle) fire(ctx context.Context, in *instance, e life.Event) (life.Step, error) {
	for {
		_, changed := in.Stand()
		step := in.Fire(e, nil)
		switch step.Answer {
		case life.Refuse:
			return step, refused(in)
		case life.Wait:
			if err := c.do(ctx, in, step, note{}); err != nil {
				return step, err
			}
			if err := await(ctx, changed); err != nil {
				return step, err
			}
		default:
			return step, nil
		}
	}
}

// note is what the log records about a change of state.
type note struct {
	reason   string
	proof    *api.Proof
	commands string // the cause of the ends of its commands, if that is not the reason
}

// do performs the effects of a step, in their order. A row that cannot be stored stops a
// sandbox from being what was requested; it does not stop its end.
func (c *lifecycle) do(ctx context.Context, in *instance, step life.Step, n note) (unstored error) {
	late := false // the end is stored and announced when the database can be reached
	for _, effect := range step.Do {
		switch effect {
		case life.StoreRow:
			if unstored = c.store(ctx, in); unstored == nil {
				continue
			}
			if !step.To.Final() {
				return unstored
			}
			c.log.Error("cannot store sandbox record", "sandbox", in.id, "state", step.To.String(), "error", unstored)
			if late = unavailable(unstored); late {
				c.table.spawn(func() { c.storeEnd(in, n) })
			}
		case life.Announce:
			if late {
				continue
			}
			in.told.Wait()
			c.announce(in, n)
		case life.Watch:
			c.begin(in)
		case life.CancelWait:
			in.wait.Cancel()
		case life.CancelSave:
			in.save.Cancel()
		case life.CloseLink:
			in.egress.Close()
			if in.machine != nil {
				in.machine.Link().Close()
				in.commands.Guest().Close()
			}
		case life.EndCommands:
			in.commands.End(cmp.Or(n.commands, api.CauseOf(n.reason)))
		case life.DetachCommands:
			in.commands.Detach()
		case life.FreeMachine:
			c.free(in)
		case life.Remove:
			in.told.Wait()
			c.table.remove(in)
		case life.Finish:
			in.egress.Close() // also of one whose link stays open
			close(in.ended)
		}
	}
	return unstored
}

func (c *lifecycle) announce(in *instance, n note) {
	c.facts.append(in.id, api.EventSandboxState, api.SandboxStateEvent{State: in.Row().State, Reason: n.reason, Proof: n.proof})
}

// unavailable reports whether a database could not be reached.
func unavailable(err error) bool {
	return api.KindOf(err) == api.KindUnavailable || api.KindOf(err) == api.KindTimeout
}

// storeAgain is the time between two attempts to store the end of a sandbox.
const storeAgain = 500 * time.Millisecond

// storeEnd stores and announces the end of a sandbox that the database could not be reached for. When the manager closes before,
// the next daemon finds the sandbox gone.
func (c *lifecycle) storeEnd(in *instance, n note) {
	err := c.storeLate(in.Store)
	switch {
	case err == nil:
		in.told.Wait()
		c.announce(in, n)
	case !unavailable(err):
		c.log.Error("cannot store sandbox record", "sandbox", in.id, "error", err)
	}
}

// endUnconfirmed ends the row of a sandbox that did not start because the database did not confirm the row: it may be stored nevertheless, and nothing else would
// end it as long as this daemon runs.
func (c *lifecycle) endUnconfirmed(row api.Sandbox, reason string) {
	row.State, row.EndedAt, row.Reason = api.SandboxEnded, c.now().UTC(), reason
	err := c.storeLate(func(ctx context.Context) error { return c.rows.UpdateSandbox(ctx, row) })
	switch {
	case err == nil:
		c.facts.append(row.ID, api.EventSandboxState, api.SandboxStateEvent{State: row.State, Reason: reason})
	case !unavailable(err) && api.KindOf(err) != api.KindNotFound: // it is not stored
		c.log.Error("cannot store sandbox record", "sandbox", row.ID, "error", err)
	}
}

// storeLate calls store until the database can be reached, or the manager closes.
func (c *lifecycle) storeLate(store func(context.Context) error) error {
	again := time.NewTicker(storeAgain)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-c.table.ctx.Done():
			return api.Errorf(api.KindUnavailable, "%w", c.table.ctx.Err())
		}
		if err := withoutCaller(c.table.ctx, store); !unavailable(err) {
			return err
		}
	}
}

// storeTimeout limits the write of a row that must be stored even if the caller has
// disconnected.
const storeTimeout = 10 * time.Second

// store stores a sandbox's row, whether or not the caller is still there.
func (c *lifecycle) store(ctx context.Context, in *instance) error {
	return withoutCaller(ctx, in.Store)
}

// withoutCaller calls what stores a row with a context that does not end with its caller.
func withoutCaller(ctx context.Context, store func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	return store(ctx)
}

// free kills a machine that has ended already, for what the host still holds of it.
func (c *lifecycle) free(in *instance) {
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	if _, err := in.machine.Kill(ctx); err != nil {
		c.log.Error("cannot free a sandbox that was paused to disk", "sandbox", in.id, "error", err)
	}
}

// booted marks that a sandbox's guest responds, unless the manager has closed meanwhile: such a
// sandbox was not ended with the others.
func (c *lifecycle) booted(in *instance) (life.Step, error) {
	var step life.Step
	err := c.table.whileOpen(func() { step = in.Fire(life.Boot, nil) })
	return step, err
}

// done reports to a sandbox that work is done, and performs what follows.
func (c *lifecycle) done(ctx context.Context, in *instance, e life.Event) error {
	step := in.Fire(e, nil)
	if step.Answer != life.Go { // it was ended meanwhile
		return refused(in)
	}
	return c.do(ctx, in, step, note{})
}

// change changes the row of a live sandbox and stores it.
func (c *lifecycle) change(ctx context.Context, id api.SandboxID, edit func(*instance) life.Step) (api.Sandbox, error) {
	in, err := c.table.here(ctx, id)
	if err != nil {
		return api.Sandbox{}, err
	}
	if edit(in).Answer == life.Refuse {
		return in.Row(), refused(in)
	}
	err = c.store(ctx, in)
	return in.Row(), err
}

// moveDeadline is change of the deadline; the log says so if it was moved.
func (c *lifecycle) moveDeadline(ctx context.Context, id api.SandboxID, edit func(*instance) life.Step) (api.Sandbox, error) {
	var before time.Time
	row, err := c.change(ctx, id, func(in *instance) life.Step {
		before = in.Row().ExpiresAt
		return edit(in)
	})
	if in, ok := c.table.lookup(id); ok && err == nil && !row.ExpiresAt.Equal(before) {
		c.facts.tell(in, api.EventUpdated, api.UpdatedEvent{ExpiresAt: row.ExpiresAt})
	}
	return row, err
}

// announceDelay is how long the event that a sandbox runs may wait: what was claimed gets
// the processors first.
const announceDelay = 25 * time.Millisecond

// begin announces that a sandbox is running, and watches it from now on. The event is delayed for
// the sandbox's first command, unless a reader waits for it; later events follow it.
func (c *lifecycle) begin(in *instance) {
	in.told.Begin()
	running := func() {
		c.facts.append(in.id, api.EventSandboxState, api.SandboxStateEvent{State: api.SandboxRunning})
		in.told.Done()
	}
	watched := c.table.spawn(func() {
		rest := time.NewTimer(announceDelay)
		select {
		case <-rest.C:
		case <-in.told.Hurry():
		case <-in.machine.Done():
		case <-c.table.ctx.Done():
		}
		rest.Stop()
		running()
		in.egress.Begin()
		c.watch(in)
	})
	if !watched { // the manager is closing, and ends the sandbox or leaves it
		running()
	}
}

const (
	// killTimeout bounds a kill with proof.
	killTimeout = 20 * time.Second
	// stopped is the reason of sandboxes that their manager ends when it closes.
	stopped = "daemon stopped"
)

// errSuspended reports that a sandbox was paused to disk before it could be ended.
var errSuspended = errors.New("the sandbox is paused to disk")

// end kills a sandbox for a reason and stores its end. A second call waits for the first and
// returns the same proof. If the sandbox is being paused to disk, end waits and returns
// errSuspended without killing it.
func (c *lifecycle) end(ctx context.Context, in *instance, reason string) (api.Proof, error) {
	for {
		state, changed := in.Stand()
		step := in.End(life.Kill, reason)
		switch {
		case step.Answer == life.Wait:
			if reason != api.CauseKilled && state == life.Suspending {
				step.Do = nil // a deadline does not give up the pause
			}
			_ = c.do(ctx, in, step, note{})
			if err := await(ctx, changed); err != nil {
				return api.Proof{}, err
			}
			continue
		case step.Answer == life.Refuse:
			return api.Proof{}, api.Errorf(api.KindConflict, "sandbox %s is still starting", in.id)
		case state == life.Suspended:
			<-in.ended
			return api.Proof{}, errSuspended
		case state == life.Left:
			return api.Proof{}, api.Errorf(api.KindConflict, "sandbox %s now belongs to the next daemon", in.id)
		}
		_ = c.do(ctx, in, step, note{})
		break
	}
	if in.machine == nil {
		<-in.ended
		return api.Proof{How: "the sandbox waited for capacity; nothing was started"}, nil
	}
	killCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	killCtx, over := c.watcher.Begin(killCtx, sandbox.Step{Op: sandbox.OpKill, Sandbox: in.id})
	proof, err := in.machine.Kill(killCtx)
	over(sandbox.Outcome{Isolation: in.backend.Name(), Err: err})
	if err != nil {
		return proof, api.Errorf(api.KindOf(err), "kill sandbox %s: %w", in.id, err)
	}
	_ = c.finish(in, life.End, in.Reason(), &proof)
	return proof, nil
}

// finish stores the end of a sandbox of which nothing is left. If another goroutine does so, it
// returns when that is done. After an error, which has been logged, the end is not stored.
func (c *lifecycle) finish(in *instance, e life.Event, reason string, proof *api.Proof) error {
	step := in.Fire(e, func(row *api.Sandbox) { row.Reason, row.EndedAt, row.Moving = reason, c.now().UTC(), false })
	if step.Answer != life.Go {
		<-in.ended
		return nil
	}
	return c.do(context.Background(), in, step, note{reason: reason, proof: proof})
}

// lost stores the end of a sandbox whose guest exited without a request.
func (c *lifecycle) lost(in *instance, reason string) {
	// The guest has exited; Kill frees the rest and proves that nothing is left.
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	proof, err := in.machine.Kill(ctx)
	if err != nil {
		c.log.Error("cannot clean up lost sandbox", "sandbox", in.id, "error", err)
		reason += "; cleanup failed: " + err.Error()
	}
	e := life.Lose
	switch api.CauseOf(reason) {
	case api.CauseMemory, api.CauseDisk, api.CauseQuota, api.CauseFull, api.CauseAccount:
		e = life.End // a limit ended it
	}
	if e == life.Lose {
		c.log.Warn("a sandbox is lost", "sandbox", in.id, "isolation", in.backend.Name(), "reason", reason)
	}
	_ = c.finish(in, e, reason, &proof)
}

// failed stores that a sandbox could not start. machine is what was started of it, or nil.
func (c *lifecycle) failed(in *instance, reason string, machine sandbox.Machine) {
	var proof *api.Proof
	if machine != nil {
		ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
		defer cancel()
		p, err := machine.Kill(ctx)
		if err != nil {
			c.log.Error("cannot kill a sandbox that failed to start", "sandbox", in.id, "error", err)
		} else {
			proof = &p
		}
	}
	_ = c.finish(in, life.BootFailed, reason, proof)
}

// resume resumes a sandbox that is paused in memory.
func (c *lifecycle) resume(ctx context.Context, in *instance) error {
	step, err := c.fire(ctx, in, life.Resume)
	if err != nil || step.Answer == life.Ignore {
		return err
	}
	if err := in.machine.Resume(ctx); err != nil {
		in.Fire(life.ResumeFailed, nil)
		return err
	}
	if err := in.egress.Retry(ctx); err != nil {
		if perr := in.machine.Pause(ctx); perr != nil { // it runs and connects to nothing
			return errors.Join(err, perr, c.done(ctx, in, life.ResumeDone))
		}
		in.Fire(life.ResumeFailed, nil)
		return err
	}
	if in.shut {
		in.gate.Open()
		in.shut = false
	}
	return c.done(ctx, in, life.ResumeDone)
}

// leave releases one sandbox, or ends it if it cannot continue; it is true in the first
// case.
func (c *lifecycle) leave(ctx context.Context, in *instance) (bool, error) {
	for {
		state, changed := in.Stand()
		switch {
		case state == life.Queued, state == life.Starting:
			return false, nil // the next owner of its row ends it
		case state == life.Ending, state.Final():
			<-in.ended
			return false, nil
		case state == life.Restoring, state == life.Suspending:
			if err := await(ctx, changed); err != nil {
				return false, err
			}
			continue
		}
		break
	}
	if row := in.Row(); !in.backend.Capabilities().Adopt || row.Task != "" || row.Held {
		_, err := c.end(ctx, in, stopped)
		return false, err
	}
	step, err := c.fire(ctx, in, life.Leave)
	if err != nil {
		return false, err
	}
	if step.Answer != life.Go { // it ended meanwhile
		<-in.ended
		return false, nil
	}
	if !in.shut {
		// No command is half-way between its request and its first event then.
		if err = in.gate.Close(ctx); err == nil {
			defer in.gate.Open()
		}
	}
	in.egress.Close() // the next daemon serves them
	in.commands.Guest().Close()
	if err == nil {
		err = in.machine.Leave(ctx)
	}
	_ = c.do(ctx, in, in.Fire(life.LeaveDone, nil), note{})
	if err != nil {
		return false, api.Errorf(api.KindOf(err), "leave sandbox %s running: %w", in.id, err)
	}
	return true, nil
}

// markLost stores that a sandbox without a machine is lost, and its commands with it.
func (c *lifecycle) markLost(ctx context.Context, row api.Sandbox, reason string, proof api.Proof) error {
	if err := c.run.EndAll(ctx, row.ID, api.CauseLost); err != nil {
		return err
	}
	row.State, row.Reason, row.EndedAt, row.Moving = api.SandboxLost, reason, c.now().UTC(), false
	if err := c.rows.UpdateSandbox(ctx, row); err != nil {
		return err
	}
	// From here on nobody stores a command of it: its owner, which may be alive, could until now.
	if err := c.run.EndAll(ctx, row.ID, api.CauseLost); err != nil {
		return err
	}
	c.facts.append(row.ID, api.EventSandboxState, api.SandboxStateEvent{State: row.State, Reason: row.Reason, Proof: &proof})
	return nil
}

// wall returns the wall-clock time without the monotonic reading.
func (c *lifecycle) wall() time.Time { return c.now().UTC().Round(0) }

// facts appends to the logs of sandboxes.
type facts struct {
	events sandbox.Log
	log    *slog.Logger
}

// tell appends an event to a sandbox's log, after the event that it is running.
func (f facts) tell(in *instance, t api.EventType, data any) {
	in.told.Wait()
	f.append(in.id, t, data)
}

// append appends a fact; a log that fails is reported and does not stop the work.
func (f facts) append(id api.SandboxID, t api.EventType, data any) {
	// Events are stored even if the caller has disconnected.
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	if _, err := f.events.Append(ctx, api.Stream{Kind: api.StreamSandbox, ID: string(id)}, t, data); err != nil {
		f.log.Error("cannot store event", "sandbox", id, "type", t, "error", err)
	}
}
