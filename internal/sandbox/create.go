package sandbox

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/layer"
)

const (
	// startTimeout bounds a backend's Start.
	startTimeout = 30 * time.Second
	// hostname is the name that every sandbox has inside.
	hostname = "sandbox"
)

// Create makes a sandbox and returns when its guest answers: one that was booted
// ahead where the pool has it, else one that boots now. ctx bounds the start; the
// sandbox lives until its deadline.
func (m *Manager) Create(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error) {
	w, err := m.resolve(ctx, &req)
	if err != nil {
		return api.Sandbox{}, err
	}
	if g := m.pool.take(&w); g != nil {
		row, err := m.claim(ctx, req, &w, g)
		if api.KindOf(err) != api.KindUnavailable || ctx.Err() != nil {
			return row, err
		}
		// The guest ended while it waited, and its row says so: a fresh one is
		// what the caller would ask for next.
		m.log.Warn("a warm guest could not be claimed", "sandbox", g.id, "error", err)
	}
	return m.boot(ctx, req, &w)
}

// CreateCold is Create without the pool. Measurements use it.
func (m *Manager) CreateCold(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error) {
	w, err := m.resolve(ctx, &req)
	if err != nil {
		return api.Sandbox{}, err
	}
	return m.boot(ctx, req, &w)
}

// boot starts a sandbox of its own for a wish.
func (m *Manager) boot(ctx context.Context, req api.CreateSandbox, w *wish) (api.Sandbox, error) {
	l := m.newLive(api.NewSandboxID(), req, w, api.SandboxStarting)
	if w.snapshot != nil {
		return m.raise(ctx, l, func(ctx context.Context, spec Spec) (Prepared, error) {
			return m.restore(ctx, w.snapshot.ID, spec)
		})
	}
	if err := m.enter(ctx, l); err != nil {
		return api.Sandbox{}, err
	}
	startCtx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	machine, err := w.backend.Start(startCtx, Spec{
		ID: l.row.ID, Layers: w.layers, Limits: w.limits, Asked: w.asked, Env: req.Env, Hostname: hostname,
		Workspace: w.workspace,
	})
	if err != nil {
		m.settle(l, api.SandboxEnded, "start failed: "+err.Error(), nil)
		return api.Sandbox{}, err
	}
	l.run(machine)
	l.mu.Lock()
	l.row.State = api.SandboxRunning
	row := l.row
	l.mu.Unlock()
	if err := m.cfg.Rows.UpdateSandbox(ctx, row); err != nil {
		m.end(context.WithoutCancel(ctx), l, "row not stored: "+err.Error())
		return api.Sandbox{}, err
	}
	m.begin(l)
	return row, nil
}

// claim gives a warm guest to its first and only user. Requests of others that
// find the row before the guest knows it wait in the guest.
func (m *Manager) claim(ctx context.Context, req api.CreateSandbox, w *wish, g *warm) (api.Sandbox, error) {
	l := m.newLive(g.id, req, w, api.SandboxRunning)
	l.machine, l.guest, l.gate = g.machine, g.guest, g.gate
	row := l.row
	if err := m.enter(ctx, l); err != nil {
		m.pool.discard(g)
		return api.Sandbox{}, err
	}
	m.pool.letGo(g.id)
	if err := g.machine.Claim(ctx, req.Env); err != nil {
		if _, kerr := m.end(context.WithoutCancel(ctx), l, "claim failed: "+err.Error()); kerr != nil {
			m.log.Error("a guest that could not be claimed was not killed", "sandbox", g.id, "error", kerr)
		}
		return api.Sandbox{}, err
	}
	m.begin(l)
	return row, nil
}

// newLive is a sandbox of a wish before it is there.
func (m *Manager) newLive(id api.SandboxID, req api.CreateSandbox, w *wish, state api.SandboxState) *live {
	l := newLive(m.row(id, req, w, state), w.backend)
	l.layers, l.asked, l.workspace = w.layers, w.asked, w.workspace != nil
	return l
}

// row is what is known of a sandbox before it is there.
func (m *Manager) row(id api.SandboxID, req api.CreateSandbox, w *wish, state api.SandboxState) api.Sandbox {
	now := m.now().UTC()
	row := api.Sandbox{
		ID: id, State: state,
		Isolation: w.backend.Name(), IsolationWhy: w.why, Template: req.Template,
		Limits: w.limits, Unenforced: w.missing, Identities: identities(w.report),
		Egress: "none", Env: req.Env, Labels: req.Labels, Task: req.Task,
		Owner: m.cfg.Owner, CreatedAt: now, ExpiresAt: now.Add(w.ttl),
	}
	if _, ok := w.report.Has(api.CapNoNetwork); !ok {
		row.Egress = "host"
	}
	if w.snapshot != nil {
		row.Snapshot = w.snapshot.ID
	}
	return row
}

// enter puts a sandbox into the table and stores its row, before anything else
// is done for it: whatever a crash leaves behind from here on has a row that
// leads to it.
func (m *Manager) enter(ctx context.Context, l *live) error {
	if err := m.admit(l); err != nil {
		return err
	}
	// A caller who goes away must not leave it in doubt whether the row is there.
	if err := m.cfg.Rows.InsertSandbox(context.WithoutCancel(ctx), l.row); err != nil {
		m.forget(l)
		return err
	}
	return nil
}

// begin says that a sandbox runs, and watches it from now on. The saying leaves
// the processors to what the sandbox was made for, unless somebody waits for it;
// what happens to the sandbox later is said after it.
func (m *Manager) begin(l *live) {
	said := make(chan struct{})
	l.mu.Lock()
	if !l.settled {
		l.said = said
	}
	say := l.said != nil
	l.mu.Unlock()
	closing := m.ctx.Done()
	m.wg.Go(func() {
		if say {
			rest := time.NewTimer(settle)
			select {
			case <-rest.C:
			case <-l.hurry:
			case <-l.machine.Done():
			case <-closing:
			}
			rest.Stop()
			m.event(l.row.ID, api.EventSandboxState, api.SandboxStateEvent{State: api.SandboxRunning})
			close(said)
		}
		m.watch(l)
	})
}

// KeepWarm keeps guests ready for sandboxes of this request's kind: template,
// isolation and limits. It returns at once when the pool has no size.
func (m *Manager) KeepWarm(ctx context.Context, req api.CreateSandbox) error {
	if m.pool.size == 0 {
		return nil
	}
	w, err := m.resolve(ctx, &req)
	if err == nil {
		m.pool.want(&w, true)
	}
	return err
}

// Pooled says how many guests are booted ahead for sandboxes of this request's
// kind once somebody asks for one: 0 where its backend cannot, or nobody wants it.
func (m *Manager) Pooled(ctx context.Context, req api.CreateSandbox) (int, error) {
	w, err := m.resolve(ctx, &req)
	if err != nil {
		return 0, err
	}
	if _, _, ok := m.pool.kindOf(&w); !ok {
		return 0, nil
	}
	return m.pool.size, nil
}

// Warm counts the guests that wait for a sandbox, and those that should.
func (m *Manager) Warm() (ready, want int) {
	ready, want, _ = m.pool.level()
	return ready, want
}

// AwaitWarm waits until as many guests wait as should.
func (m *Manager) AwaitWarm(ctx context.Context) error {
	for {
		ready, want, changed := m.pool.level()
		if ready >= want {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Check says what Create would refuse, without starting anything: whoever is
// about to spend time or money on what will run in a sandbox asks first.
func (m *Manager) Check(ctx context.Context, req api.CreateSandbox) error {
	_, err := m.resolve(ctx, &req)
	return err
}

// wish is a request for a sandbox, made out.
type wish struct {
	ttl     time.Duration
	backend Backend
	report  api.BackendReport
	why     string
	limits  api.Limits
	asked   Asked
	missing []api.Unenforced
	layers  []layer.Digest
	// workspace is what CreateIn was asked for.
	workspace *Workspace
	// snapshot is what the sandbox starts from; nil for layers alone.
	snapshot *api.Snapshot
}

// resolve makes out a request and fills in its template.
func (m *Manager) resolve(ctx context.Context, req *api.CreateSandbox, needs ...api.Capability) (w wish, err error) {
	if w.ttl, err = checkTTL(req.TTLMS); err != nil {
		return w, err
	}
	if err = checkEnv(req.Env); err != nil {
		return w, err
	}
	if req.Template == "" {
		req.Template = hostTemplate
	}
	if s, err := m.origin(ctx, req.Template); err != nil {
		return w, err
	} else if s != nil {
		return w, m.resolveFrom(ctx, req, &w, s)
	}
	if w.backend, w.report, w.why, err = m.Choose(ctx, req.Isolation, needs...); err != nil {
		return w, err
	}
	if w.limits, w.asked, w.missing, err = resolveLimits(req.Limits, api.DefaultLimits(), w.report); err != nil {
		return w, err
	}
	w.layers, err = m.cfg.Templates.Layers(ctx, req.Template)
	return w, err
}

// admit enters a sandbox into the table, unless the manager is closing.
func (m *Manager) admit(l *live) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return api.Errorf(api.KindUnavailable, "the daemon is stopping")
	}
	m.live[l.row.ID] = l
	return nil
}

// open says whether the manager still takes sandboxes in: one that was starting
// when it closed was not ended with the others.
func (m *Manager) open() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return api.Errorf(api.KindUnavailable, "the daemon is stopping")
	}
	return nil
}

func (m *Manager) forget(l *live) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.live, l.row.ID)
}
