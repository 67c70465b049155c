package manager

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/command"
	"hortus.dev/internal/sandbox/life"
	"hortus.dev/internal/sandbox/pool"
)

// core is what all parts of a manager share: the table of sandboxes that live here, and
// how their states change.
type core struct {
	*planner
	log  *slog.Logger
	pool *pool.Pool
	run  *command.Commands

	// ctx ends when the manager closes. Background work uses it; wg waits for that work.
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	table  map[api.SandboxID]*live
	closed bool
}

func (c *core) lookup(id api.SandboxID) (*live, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, ok := c.table[id]
	return l, ok
}

// suspended reports whether a row is that of a sandbox that is paused to disk.
func suspended(row api.Sandbox) bool {
	return row.State == api.SandboxPaused && row.Snapshot != ""
}

// find returns a sandbox that is live here, or else its row. A sandbox that is resumed from disk
// between the two lookups is live: by its row alone it would be running elsewhere.
func (c *core) find(ctx context.Context, id api.SandboxID) (*live, api.Sandbox, error) {
	for looks := 1; ; looks++ {
		if l, ok := c.lookup(id); ok {
			return l, api.Sandbox{}, nil
		}
		row, err := c.cfg.Rows.Sandbox(ctx, id)
		// If a sandbox of this daemon has ended by the next lookup, its row says so. If the row
		// says running at the third lookup, it belongs to another daemon.
		if err != nil || row.State.Final() || suspended(row) || looks == 3 {
			return nil, row, err
		}
	}
}

// here returns a sandbox that is live here, or an error with the reason why it is not.
func (c *core) here(ctx context.Context, id api.SandboxID) (*live, error) {
	l, row, err := c.find(ctx, id)
	switch {
	case l != nil || err != nil:
		return l, err
	case suspended(row):
		return nil, command.Suspended(id)
	}
	return nil, ended(row)
}

// running returns a running sandbox, or an error with the reason why it is not running. It waits
// for a pause or a resume in progress.
func (c *core) running(ctx context.Context, id api.SandboxID) (*live, error) {
	l, err := c.here(ctx, id)
	if err != nil {
		return nil, err
	}
	for {
		switch state, changed := l.Stand(); state {
		case life.Running, life.Saving, life.Suspending: // streams wait at the gate
			return l, nil
		case life.Pausing, life.Resuming:
			if err := await(ctx, changed); err != nil {
				return nil, err
			}
		default:
			return nil, refused(l)
		}
	}
}

func await(ctx context.Context, ch <-chan struct{}) error {
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refused is the error of a request that a sandbox cannot take in its state.
func refused(l *live) error {
	switch state := l.State(); state {
	case life.Paused:
		return api.Errorf(api.KindConflict, "sandbox %s is paused", l.id).WithHint("resume it first: hortus sandbox resume %s", l.id)
	case life.Suspended:
		return command.Suspended(l.id)
	case life.Ended, life.Lost, life.Left:
		return ended(l.Row())
	default:
		return api.Errorf(api.KindConflict, "sandbox %s is %s", l.id, state.Words())
	}
}

func ended(row api.Sandbox) error {
	return api.Errorf(api.KindUnavailable, "sandbox %s is %s%s", row.ID, row.State, because(row.Reason))
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// register puts a sandbox into the table, unless the manager is closing or has another
// with the id. With hold, the capacity that it takes is counted from here on, also of one
// that was there before this daemon.
func (c *core) register(l *live, hold bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.stopping(); err != nil {
		return err
	}
	if c.table[l.id] != nil {
		return api.Errorf(api.KindConflict, "sandbox %s is being resumed or stopped", l.id)
	}
	if hold && l.release == nil {
		if a := c.admission(l.backend.Name()); a != nil {
			l.release = a.Hold(l.need(context.Background()))
		}
	}
	c.table[l.id] = l
	return nil
}

// stopping is an error once the manager has closed. The caller holds c.mu.
func (c *core) stopping() error {
	if !c.closed {
		return nil
	}
	return api.Errorf(api.KindUnavailable, "the daemon is stopping")
}

// open is an error once the manager has closed.
func (c *core) open() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopping()
}

// booted marks that a sandbox's guest responds, unless the manager has closed meanwhile: such a
// sandbox was not ended with the others.
func (c *core) booted(l *live) (life.Step, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.stopping(); err != nil {
		return life.Step{}, err
	}
	return l.Fire(life.Boot, nil), nil
}

// spawn starts a goroutine that the end of the manager waits for. It is false, and starts
// none, once the manager has closed.
func (c *core) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping() != nil {
		return false
	}
	c.wg.Go(f)
	return true
}

// remove takes a sandbox out of the table.
func (c *core) remove(l *live) {
	c.mu.Lock()
	delete(c.table, l.id)
	c.mu.Unlock()
	l.releaseCapacity()
}

// close takes no more sandboxes in, and gives those that are there.
func (c *core) close() []*live {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	all := make([]*live, 0, len(c.table))
	for _, l := range c.table {
		all = append(all, l)
	}
	return all
}

// fire delivers an event to a sandbox when its state takes it: it waits for work that is
// under way. The step's effects are left to the caller.
func (c *core) fire(ctx context.Context, l *live, e life.Event) (life.Step, error) {
	for {
		_, changed := l.Stand()
		step := l.Fire(e, nil)
		switch step.Answer {
		case life.Refuse:
			return step, refused(l)
		case life.Wait:
			if err := c.do(ctx, l, step, note{}); err != nil {
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
func (c *core) do(ctx context.Context, l *live, step life.Step, n note) (unstored error) {
	for _, effect := range step.Do {
		switch effect {
		case life.StoreRow:
			if unstored = c.store(ctx, l); unstored == nil {
				continue
			}
			if !step.To.Final() {
				return unstored
			}
			c.log.Error("cannot store sandbox record", "sandbox", l.id, "state", step.To.String(), "error", unstored)
		case life.Announce:
			l.told.Wait()
			c.event(l.id, api.EventSandboxState, api.SandboxStateEvent{State: l.Row().State, Reason: n.reason, Proof: n.proof})
		case life.Watch:
			c.begin(l)
		case life.CancelWait:
			l.wait.Cancel()
		case life.CancelSave:
			l.save.Cancel()
		case life.CloseLink:
			l.egress.Close()
			if l.machine != nil {
				l.machine.Link().Close()
				l.commands.Guest().Close()
			}
		case life.EndCommands:
			l.commands.End(cmp.Or(n.commands, n.reason))
		case life.DetachCommands:
			l.commands.Detach()
		case life.FreeMachine:
			c.free(l)
		case life.Remove:
			l.told.Wait()
			c.remove(l)
		case life.Finish:
			l.egress.Close() // also of one whose link stays open
			close(l.ended)
		}
	}
	return unstored
}

// storeTimeout limits the write of a row that must be stored even if the caller has
// disconnected.
const storeTimeout = 10 * time.Second

// store stores a sandbox's row, whether or not the caller is still there.
func (c *core) store(ctx context.Context, l *live) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	return l.Store(ctx)
}

// free kills a machine that has ended already, for what the host still holds of it.
func (c *core) free(l *live) {
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	if _, err := l.machine.Kill(ctx); err != nil {
		c.log.Error("cannot free a sandbox that was paused to disk", "sandbox", l.id, "error", err)
	}
}

// tell appends an event to a sandbox's log, after the event that it is running.
func (c *core) tell(l *live, t api.EventType, data any) {
	l.told.Wait()
	c.event(l.id, t, data)
}

// event appends a fact; a log that fails is reported and does not stop the work.
func (c *core) event(id api.SandboxID, t api.EventType, data any) {
	// Events are stored even if the caller has disconnected.
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	if _, err := c.cfg.Log.Append(ctx, api.Stream{Kind: api.StreamSandbox, ID: string(id)}, t, data); err != nil {
		c.log.Error("cannot store event", "sandbox", id, "type", t, "error", err)
	}
}

// step notifies the watcher of a step that begins.
func (c *core) step(ctx context.Context, s sandbox.Step) (context.Context, func(sandbox.Outcome)) {
	return c.cfg.Watcher.Begin(ctx, s)
}

// wall returns the wall-clock time without the monotonic reading.
func (c *core) wall() time.Time { return c.now().UTC().Round(0) }
