package manager

import (
	"context"
	"log/slog"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/life"
	"hortus.dev/internal/sandbox/outgoing"
	"hortus.dev/internal/sandbox/pool"
)

// Creator creates sandboxes, and keeps guests booted ahead of requests.
type Creator struct {
	planner   *Planner
	origins   *origins
	table     *table
	lifecycle *lifecycle
	capacity  *capacity
	policies  *Policies
	guests    *Guests
	pool      *pool.Pool
	rows      sandbox.Rows
	watcher   sandbox.Watcher
	log       *slog.Logger
}

// hostname is the name that every sandbox has inside.
const hostname = "sandbox"

// Create creates a sandbox and returns when its guest responds: a pooled guest if there is one,
// else a new one. ctx limits the start; the sandbox lives until its deadline.
//
// If the manager has an Admission, Create first waits for its turn, and its errors include
// those of Admission.Admit.
func (c *Creator) Create(ctx context.Context, req api.CreateSandbox) (row api.Sandbox, err error) {
	var p plan
	way := sandbox.WayCold
	ctx, over := c.watcher.Begin(ctx, sandbox.Step{Op: sandbox.OpCreate})
	defer func() {
		over(sandbox.Outcome{Sandbox: row.ID, Isolation: p.isolation(), Way: way, Err: err})
	}()
	if req.Workspace != "" {
		return api.Sandbox{}, api.Errorf(api.KindInvalid, "a sandbox with workspace %.64q needs its files", req.Workspace) // see CreateIn
	}
	if p, err = c.planner.plan(ctx, &req); err != nil {
		return api.Sandbox{}, err
	}
	way = p.way()
	// A request that must wait does not need the pool: a boot is short compared to the wait.
	release, ok := c.capacity.try(ctx, req, &p)
	if ok {
		if g := c.pool.Take(p.want()); g != nil {
			way = sandbox.WayPooled
			row, err := c.claim(ctx, req, &p, g, release)
			if api.KindOf(err) != api.KindUnavailable || ctx.Err() != nil {
				return row, err
			}
			// The guest ended while it waited, and its row says so: the caller would
			// request a new one next.
			c.log.Warn("a pooled guest could not be claimed", "sandbox", g.ID, "error", err)
			way, release = p.way(), nil
		}
	}
	return c.boot(ctx, req, &p, release)
}

// CreateCold is Create without the pool. Measurements use it.
func (c *Creator) CreateCold(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error) {
	p, err := c.planner.plan(ctx, &req)
	if err != nil {
		return api.Sandbox{}, err
	}
	return c.boot(ctx, req, &p, nil)
}

// CreateIn is Create for a sandbox with files at /workspace. It is never pooled.
//
// Errors: those of Create; KindUnsupported, naming the capability, where the backend
// cannot do it on this host; KindConflict while another has the workspace; KindNotFound
// for a workspace or a layer that is not there; KindExhausted when the host's disk has no
// space to begin with.
func (c *Creator) CreateIn(ctx context.Context, req api.CreateSandbox, ws sandbox.Workspace) (row api.Sandbox, err error) {
	var p plan
	ctx, over := c.watcher.Begin(ctx, sandbox.Step{Op: sandbox.OpCreate})
	defer func() {
		over(sandbox.Outcome{Sandbox: row.ID, Isolation: p.isolation(), Way: sandbox.WayWorkspace, Err: err})
	}()
	if p, err = c.planner.planIn(ctx, &req, ws); err != nil {
		return api.Sandbox{}, err
	}
	return c.boot(ctx, req, &p, nil)
}

// boot starts a new sandbox for a plan. release frees the capacity that was reserved for it; nil if
// it is still to be taken.
func (c *Creator) boot(ctx context.Context, req api.CreateSandbox, p *plan, release func()) (api.Sandbox, error) {
	in := c.planned(api.NewSandboxID(), req, p, life.Queued)
	in.release = release
	if p.snapshot != nil {
		return c.start(ctx, in, restoreTimeout, sandbox.OpRestore, func(ctx context.Context) (sandbox.Machine, error) {
			return restoreAndClaim(ctx, in, func(ctx context.Context, spec sandbox.Spec) (sandbox.Machine, error) {
				return c.origins.restore(ctx, p.snapshot.ID, spec)
			})
		})
	}
	return c.start(ctx, in, sandbox.StartTimeout(p.backend), sandbox.OpBoot, func(ctx context.Context) (sandbox.Machine, error) {
		spec := p.spec
		spec.ID, spec.Env = in.id, outgoing.CommandEnvironment(in.Row())
		return p.backend.Start(ctx, spec)
	})
}

// start puts a sandbox into the table and starts its machine.
func (c *Creator) start(ctx context.Context, in *instance, timeout time.Duration, op sandbox.Op, boot func(context.Context) (sandbox.Machine, error)) (api.Sandbox, error) {
	if err := c.enter(ctx, in); err != nil {
		return api.Sandbox{}, err
	}
	bootCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	bootCtx, over := c.watcher.Begin(bootCtx, sandbox.Step{Op: op, Sandbox: in.id})
	machine, err := boot(bootCtx)
	over(sandbox.Outcome{Isolation: in.backend.Name(), Err: err})
	if err != nil {
		c.broken(in, err, machine)
		return api.Sandbox{}, err
	}
	in.boot(machine, nil)
	in.mark(c.watcher.Mark(ctx))
	step, err := life.Step{}, in.egress.Open(bootCtx)
	if err == nil {
		step, err = c.lifecycle.booted(in)
	}
	if err != nil {
		c.broken(in, err, machine)
		return api.Sandbox{}, err
	}
	if err := c.lifecycle.do(ctx, in, step, note{}); err != nil {
		c.lifecycle.end(context.WithoutCancel(ctx), in, "cannot store sandbox record: "+err.Error())
		return api.Sandbox{}, err
	}
	return c.restored(ctx, in)
}

// broken stores and logs that a machine has not started. machine is what was started of it, or nil.
func (c *Creator) broken(in *instance, err error, machine sandbox.Machine) {
	c.log.Warn("a sandbox has not started", "sandbox", in.id, "isolation", in.backend.Name(), "error", err)
	c.lifecycle.failed(in, "start failed: "+err.Error(), machine)
}

// claim assigns a warm guest to its first and only user. Requests of others that find the
// row before the guest knows it wait in the guest.
func (c *Creator) claim(ctx context.Context, req api.CreateSandbox, p *plan, g *pool.Guest, release func()) (_ api.Sandbox, err error) {
	ctx, over := c.watcher.Begin(ctx, sandbox.Step{Op: sandbox.OpClaim, Sandbox: g.ID})
	defer func() { over(sandbox.Outcome{Isolation: p.backend.Name(), Err: err}) }()
	in := c.planned(g.ID, req, p, life.Running)
	in.boot(g.Machine, g.Client)
	in.release = release
	if err := c.enter(ctx, in); err != nil {
		c.pool.Discard(g)
		return api.Sandbox{}, err
	}
	c.pool.Release(g.ID)
	err = g.Machine.Claim(ctx, outgoing.CommandEnvironment(in.Row()))
	if err == nil {
		err = in.egress.Open(ctx)
	}
	if err != nil {
		if _, kerr := c.lifecycle.end(context.WithoutCancel(ctx), in, "claim failed: "+err.Error()); kerr != nil {
			c.log.Error("cannot kill a guest whose claim failed", "sandbox", g.ID, "error", kerr)
		}
		return api.Sandbox{}, err
	}
	in.mark(c.watcher.Mark(ctx))
	c.lifecycle.begin(in)
	return c.restored(ctx, in)
}

// restored runs the on-restore command of a sandbox that runs, if it has one, and returns its row. If the command
// fails, the sandbox is ended.
func (c *Creator) restored(ctx context.Context, in *instance) (api.Sandbox, error) {
	row := in.Row()
	if row.OnRestore == "" {
		return row, nil
	}
	const what = "on-restore command"
	end := func(reason string) error {
		_, err := c.lifecycle.end(context.WithoutCancel(ctx), in, reason)
		return err
	}
	err := c.guests.shell(ctx, in.id, what, row.OnRestore, api.OnRestoreTimeout, func() { end(what + " cancelled") })
	if err != nil {
		if kerr := end(what + " failed"); kerr != nil {
			c.log.Error("cannot kill a sandbox whose on-restore command failed", "sandbox", in.id, "error", kerr)
		}
		return api.Sandbox{}, err
	}
	return row, nil
}

// planned is a sandbox before it is there.
func (c *Creator) planned(id api.SandboxID, req api.CreateSandbox, p *plan, state life.State) *instance {
	row := c.planner.row(id, req, p)
	if state == life.Running {
		row.State = api.SandboxRunning
	}
	in := c.lifecycle.instance(row, p.backend, state)
	in.layers, in.asked, in.workspace = p.spec.Layers, p.spec.Asked, p.spec.Workspace
	return in
}

// enter registers a sandbox and stores its row, before anything is created for it: after a crash,
// everything that is left belongs to a row.
//
// Before that it waits for capacity on the host. A sandbox that has to wait is registered when
// its wait begins: it is listed, and can be killed, like any starting sandbox.
func (c *Creator) enter(ctx context.Context, in *instance) error {
	row := in.Row()
	in.StartClock(row.ExpiresAt.Sub(row.CreatedAt))
	insert := func() error { return c.insert(ctx, in) }
	err := c.capacity.take(ctx, in, insert)
	if err == nil && !in.stored {
		err = insert()
	}
	if err == nil && in.Fire(life.Admit, nil).Answer == life.Ignore { // killed while it waited
		err = api.Errorf(api.KindUnavailable, "sandbox %s was stopped while it waited for capacity: %s", in.id, in.Reason())
	}
	if err == nil {
		c.policies.follower().Follow([]api.Sandbox{row}, "") // a secret may have changed since its rules were resolved
		return nil
	}
	if !in.stored {
		in.releaseCapacity()
		return err
	}
	reason := in.Reason()
	if reason == "" {
		reason = "start failed: " + err.Error()
	}
	c.lifecycle.failed(in, reason, nil)
	return err
}

func (c *Creator) insert(ctx context.Context, in *instance) error {
	if err := c.table.register(in); err != nil {
		return err
	}
	row := in.Row()
	// If the caller disconnects, the row must be stored nevertheless.
	if err := c.rows.InsertSandbox(context.WithoutCancel(ctx), row); err != nil {
		c.table.remove(in)
		if unavailable(err) {
			c.table.spawn(func() { c.lifecycle.endUnconfirmed(row, "start failed: "+err.Error()) })
		}
		return err
	}
	in.stored = true
	return nil
}

// KeepWarm resolves a request, its template included, and keeps guests ready for sandboxes
// of its kind from then on: template, isolation and limits. Without a pool that is all.
func (c *Creator) KeepWarm(ctx context.Context, req api.CreateSandbox) error {
	p, err := c.planner.plan(ctx, &req)
	if err == nil {
		c.pool.Keep(p.want(), true)
	}
	return err
}

// Pooled returns the number of guests that the pool keeps for sandboxes of this request's kind: 0
// if its backend cannot boot guests ahead.
func (c *Creator) Pooled(ctx context.Context, req api.CreateSandbox) (int, error) {
	p, err := c.planner.plan(ctx, &req)
	if err != nil {
		return 0, err
	}
	return c.pool.Keeps(p.want()), nil
}

// Warm counts the guests that wait for a sandbox, and those that should.
func (c *Creator) Warm() (ready, want int) {
	ready, want, _ = c.pool.Level()
	return ready, want
}

// AwaitWarm waits until as many guests wait as should.
func (c *Creator) AwaitWarm(ctx context.Context) error {
	for {
		ready, want, changed := c.pool.Level()
		if ready >= want {
			return nil
		}
		if err := await(ctx, changed); err != nil {
			return err
		}
	}
}

// Cold returns why the last guest could not be booted ahead of a kind that has too few; nil
// where none failed.
func (c *Creator) Cold() error { return c.pool.Failure() }
