package manager

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/life"
	"hortus.dev/internal/sandbox/pool"
)

// hostname is the name that every sandbox has inside.
const hostname = "sandbox"

// Create creates a sandbox and returns when its guest responds: a pooled guest if there is one,
// else a new one. ctx limits the start; the sandbox lives until its deadline.
//
// If the manager has an Admission, Create first waits for its turn, and its errors include
// those of Admission.Admit.
func (m *Manager) Create(ctx context.Context, req api.CreateSandbox) (row api.Sandbox, err error) {
	var p plan
	way := sandbox.WayCold
	ctx, over := m.step(ctx, sandbox.Step{Op: sandbox.OpCreate})
	defer func() {
		over(sandbox.Outcome{Sandbox: row.ID, Isolation: p.isolation(), Way: way, Err: err})
	}()
	if req.Workspace != "" {
		return api.Sandbox{}, api.Errorf(api.KindInvalid, "a sandbox with workspace %.64q needs its files", req.Workspace) // see CreateIn
	}
	if p, err = m.plan(ctx, &req); err != nil {
		return api.Sandbox{}, err
	}
	way = p.way()
	// A request that must wait does not need the pool: a boot is short compared to the wait.
	release, ok := m.tryCapacity(ctx, req, &p)
	if ok {
		if g := m.pool.Take(p.want()); g != nil {
			way = sandbox.WayPooled
			row, err := m.claim(ctx, req, &p, g, release)
			if api.KindOf(err) != api.KindUnavailable || ctx.Err() != nil {
				return row, err
			}
			// The guest ended while it waited, and its row says so: the caller would
			// request a new one next.
			m.log.Warn("a pooled guest could not be claimed", "sandbox", g.ID, "error", err)
			way, release = p.way(), nil
		}
	}
	return m.boot(ctx, req, &p, release)
}

// CreateCold is Create without the pool. Measurements use it.
func (m *Manager) CreateCold(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error) {
	p, err := m.plan(ctx, &req)
	if err != nil {
		return api.Sandbox{}, err
	}
	return m.boot(ctx, req, &p, nil)
}

// CreateIn is Create for a sandbox with files at /workspace. It is never pooled.
//
// Errors: those of Create; KindUnsupported, naming the capability, where the backend
// cannot do it on this host; KindConflict while another has the workspace; KindNotFound
// for a workspace or a layer that is not there; KindExhausted when the host's disk has no
// space to begin with.
func (m *Manager) CreateIn(ctx context.Context, req api.CreateSandbox, ws sandbox.Workspace) (row api.Sandbox, err error) {
	var p plan
	ctx, over := m.step(ctx, sandbox.Step{Op: sandbox.OpCreate})
	defer func() {
		over(sandbox.Outcome{Sandbox: row.ID, Isolation: p.isolation(), Way: sandbox.WayWorkspace, Err: err})
	}()
	if p, err = m.planIn(ctx, &req, ws); err != nil {
		return api.Sandbox{}, err
	}
	return m.boot(ctx, req, &p, nil)
}

// boot starts a new sandbox for a plan. release frees the capacity that was reserved for it; nil if
// it is still to be taken.
func (m *Manager) boot(ctx context.Context, req api.CreateSandbox, p *plan, release func()) (api.Sandbox, error) {
	l := m.planned(api.NewSandboxID(), req, p, life.Queued)
	l.release = release
	if p.snapshot != nil {
		return m.start(ctx, l, restoreTimeout, sandbox.OpRestore, func(ctx context.Context) (sandbox.Machine, error) {
			return m.restoreAndClaim(ctx, l, func(ctx context.Context, spec sandbox.Spec) (sandbox.Machine, error) {
				return m.restore(ctx, p.snapshot.ID, spec)
			})
		})
	}
	return m.start(ctx, l, sandbox.StartTimeout(p.backend), sandbox.OpBoot, func(ctx context.Context) (sandbox.Machine, error) {
		spec := p.spec
		spec.ID, spec.Env = l.id, req.Env
		return p.backend.Start(ctx, spec)
	})
}

// start puts a sandbox into the table and starts its machine.
func (c *core) start(ctx context.Context, l *live, timeout time.Duration, op sandbox.Op, boot func(context.Context) (sandbox.Machine, error)) (api.Sandbox, error) {
	if err := c.enter(ctx, l); err != nil {
		return api.Sandbox{}, err
	}
	bootCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	bootCtx, over := c.step(bootCtx, sandbox.Step{Op: op, Sandbox: l.id})
	machine, err := boot(bootCtx)
	over(sandbox.Outcome{Isolation: l.backend.Name(), Err: err})
	if err != nil {
		c.failed(l, "start failed: "+err.Error(), machine)
		return api.Sandbox{}, err
	}
	l.boot(machine, nil)
	l.mark(c.cfg.Watcher.Mark(ctx))
	step, err := life.Step{}, l.egress.Open(bootCtx)
	if err == nil {
		step, err = c.booted(l)
	}
	if err != nil {
		c.failed(l, "start failed: "+err.Error(), machine)
		return api.Sandbox{}, err
	}
	if err := c.do(ctx, l, step, note{}); err != nil {
		c.end(context.WithoutCancel(ctx), l, "cannot store sandbox record: "+err.Error())
		return api.Sandbox{}, err
	}
	return l.Row(), nil
}

// claim assigns a warm guest to its first and only user. Requests of others that find the
// row before the guest knows it wait in the guest.
func (m *Manager) claim(ctx context.Context, req api.CreateSandbox, p *plan, g *pool.Guest, release func()) (_ api.Sandbox, err error) {
	ctx, over := m.step(ctx, sandbox.Step{Op: sandbox.OpClaim, Sandbox: g.ID})
	defer func() { over(sandbox.Outcome{Isolation: p.backend.Name(), Err: err}) }()
	l := m.planned(g.ID, req, p, life.Running)
	l.boot(g.Machine, g.Client)
	l.release = release
	row := l.Row()
	if err := m.enter(ctx, l); err != nil {
		m.pool.Discard(g)
		return api.Sandbox{}, err
	}
	m.pool.Release(g.ID)
	err = g.Machine.Claim(ctx, req.Env)
	if err == nil {
		err = l.egress.Open(ctx)
	}
	if err != nil {
		if _, kerr := m.end(context.WithoutCancel(ctx), l, "claim failed: "+err.Error()); kerr != nil {
			m.log.Error("cannot kill a guest whose claim failed", "sandbox", g.ID, "error", kerr)
		}
		return api.Sandbox{}, err
	}
	l.mark(m.cfg.Watcher.Mark(ctx))
	m.begin(l)
	return row, nil
}

// planned is a sandbox before it is there.
func (m *Manager) planned(id api.SandboxID, req api.CreateSandbox, p *plan, state life.State) *live {
	row := m.row(id, req, p)
	if state == life.Running {
		row.State = api.SandboxRunning
	}
	l := m.newLive(row, p.backend, state)
	l.layers, l.asked, l.workspace = p.spec.Layers, p.spec.Asked, p.spec.Workspace
	return l
}

// enter registers a sandbox and stores its row, before anything is created for it: after a crash,
// everything that is left belongs to a row.
//
// Before that it waits for capacity on the host. A sandbox that has to wait is registered when
// its wait begins: it is listed, and can be killed, like any starting sandbox.
func (c *core) enter(ctx context.Context, l *live) error {
	row := l.Row()
	l.StartClock(row.ExpiresAt.Sub(row.CreatedAt))
	insert := func() error { return c.insert(ctx, l) }
	err := c.takeCapacity(ctx, l, insert)
	if err == nil && !l.stored {
		err = insert()
	}
	if err == nil && l.Fire(life.Admit, nil).Answer == life.Ignore { // killed while it waited
		err = api.Errorf(api.KindUnavailable, "sandbox %s was stopped while it waited for capacity: %s", l.id, l.Reason())
	}
	if err == nil {
		policies{c}.follower().Follow([]api.Sandbox{row}, "") // a secret may have changed since its rules were resolved
		return nil
	}
	if !l.stored {
		l.releaseCapacity()
		return err
	}
	reason := l.Reason()
	if reason == "" {
		reason = "start failed: " + err.Error()
	}
	c.failed(l, reason, nil)
	return err
}

func (c *core) insert(ctx context.Context, l *live) error {
	if err := c.register(l, false); err != nil {
		return err
	}
	// If the caller disconnects, the row must be stored nevertheless.
	if err := c.cfg.Rows.InsertSandbox(context.WithoutCancel(ctx), l.Row()); err != nil {
		c.remove(l)
		return err
	}
	l.stored = true
	return nil
}
