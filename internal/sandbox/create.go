package sandbox

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
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
//
// Where an Admission bounds the manager it waits for its turn first; errors are those
// of Admission.Admit too.
func (m *Manager) Create(ctx context.Context, req api.CreateSandbox) (row api.Sandbox, err error) {
	var w wish
	way := WayCold
	ctx, end := m.step(ctx, Step{Op: OpCreate})
	defer func() {
		end(Outcome{Sandbox: row.ID, Isolation: w.isolation(), Way: way, Err: err})
	}()
	if w, err = m.resolve(ctx, &req); err != nil {
		return api.Sandbox{}, err
	}
	way = w.way()
	// Who must wait is no matter of the pool's any more: a boot is short beside it.
	release, room := m.tryRoom(ctx, req, &w)
	if room {
		if g := m.pool.take(&w); g != nil {
			way = WayPooled
			row, err := m.claim(ctx, req, &w, g, release)
			if api.KindOf(err) != api.KindUnavailable || ctx.Err() != nil {
				return row, err
			}
			// The guest ended while it waited, and its row says so: a fresh one is
			// what the caller would ask for next.
			m.log.Warn("a warm guest could not be claimed", "sandbox", g.id, "error", err)
			way, release = w.way(), nil
		}
	}
	return m.boot(ctx, req, &w, release)
}

// CreateCold is Create without the pool. Measurements use it.
func (m *Manager) CreateCold(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error) {
	w, err := m.resolve(ctx, &req)
	if err != nil {
		return api.Sandbox{}, err
	}
	return m.boot(ctx, req, &w, nil)
}

// boot starts a sandbox of its own for a wish. release is what was taken for it, nil
// where that is still to be done.
func (m *Manager) boot(ctx context.Context, req api.CreateSandbox, w *wish, release func()) (api.Sandbox, error) {
	l := m.newLive(api.NewSandboxID(), req, w, api.SandboxStarting)
	l.release = release
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
	startCtx, end := m.step(startCtx, Step{Op: OpBoot, Sandbox: l.row.ID})
	machine, err := w.backend.Start(startCtx, Spec{
		ID: l.row.ID, Layers: w.layers, Limits: w.limits, Asked: w.asked, Env: req.Env, Hostname: hostname,
		Template: w.template, Workspace: w.workspace,
	})
	end(Outcome{Isolation: w.backend.Name(), Err: err})
	if err != nil {
		m.settle(l, api.SandboxEnded, "start failed: "+err.Error(), nil)
		return api.Sandbox{}, err
	}
	l.run(machine)
	l.mu.Lock()
	l.row.State = api.SandboxRunning
	m.correct(l)
	row := l.row
	l.mu.Unlock()
	if err := m.cfg.Rows.UpdateSandbox(ctx, row); err != nil {
		m.end(context.WithoutCancel(ctx), l, "row not stored: "+err.Error())
		return api.Sandbox{}, err
	}
	m.mark(ctx, l)
	m.begin(l)
	return row, nil
}

// claim gives a warm guest to its first and only user. Requests of others that
// find the row before the guest knows it wait in the guest.
func (m *Manager) claim(ctx context.Context, req api.CreateSandbox, w *wish, g *warm, release func()) (_ api.Sandbox, err error) {
	ctx, end := m.step(ctx, Step{Op: OpClaim, Sandbox: g.id})
	defer func() { end(Outcome{Isolation: w.backend.Name(), Err: err}) }()
	l := m.newLive(g.id, req, w, api.SandboxRunning)
	l.machine, l.guest, l.gate = g.machine, g.guest, g.gate
	l.release = release
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
	m.mark(ctx, l)
	m.begin(l)
	return row, nil
}

// tryRoom takes what a wish needs of the host where that can be had at once. Without
// a bound there is always room, and nothing to release.
func (m *Manager) tryRoom(ctx context.Context, req api.CreateSandbox, w *wish) (release func(), room bool) {
	if m.cfg.Admission == nil {
		return nil, true
	}
	n := Need{Account: req.Account, Memory: w.limits.MemoryBytes, CPUs: w.limits.CPUs}
	if n.Account == "" {
		n.Account = api.PrincipalOf(ctx).Account
	}
	release = m.cfg.Admission.Try(n)
	return release, release != nil
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
		Egress: "none", Env: req.Env, EnvNames: envNames(req.Env), Labels: req.Labels, Task: req.Task,
		Owner: m.cfg.Owner, Build: m.cfg.Build, CreatedAt: now, ExpiresAt: now.Add(w.ttl),
	}
	if _, ok := w.report.Has(api.CapNoNetwork); !ok {
		row.Egress = "host"
	}
	row.OnExpiry, row.AutoResume, row.PrivateTraffic, row.Account = req.OnExpiry, req.AutoResume, req.PrivateTraffic, req.Account
	if w.snapshot != nil {
		row.Snapshot = w.snapshot.ID
	}
	if req.Provision != nil {
		p := *req.Provision
		p.EnvVars = nil // they are the sandbox's, and answers do not tell them
		row.Provision = &p
	}
	row.Account, row.Key = req.Account, req.Key
	return row
}

// enter puts a sandbox into the table and stores its row, before anything else
// is done for it: whatever a crash leaves behind from here on has a row that
// leads to it.
//
// Before that it waits for room on the host. One that has to wait is entered when
// its wait begins: it is seen, and can be killed, like any other that starts.
func (m *Manager) enter(ctx context.Context, l *live) error {
	l.lives()
	record := func() error { return m.record(ctx, l) }
	if err := m.makeRoom(ctx, l, record); err != nil || l.entered {
		return err
	}
	if err := record(); err != nil {
		l.letGo()
		return err
	}
	return nil
}

func (m *Manager) record(ctx context.Context, l *live) error {
	if err := m.admit(l); err != nil {
		return err
	}
	// A caller who goes away must not leave it in doubt whether the row is there.
	if err := m.cfg.Rows.InsertSandbox(context.WithoutCancel(ctx), l.row); err != nil {
		m.forget(l)
		return err
	}
	l.entered = true
	return nil
}

// begin says that a sandbox runs, and watches it from now on. The saying leaves
// the processors to what the sandbox was made for, unless somebody waits for it;
// what happens to the sandbox later is said after it.
func (m *Manager) begin(l *live) {
	said := make(chan struct{})
	l.steady()
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

// KeepWarm makes out a request, its template included, and keeps guests ready for
// sandboxes of its kind from then on: template, isolation and limits. Where the pool
// has no size that is all.
func (m *Manager) KeepWarm(ctx context.Context, req api.CreateSandbox) error {
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

// Cold says why the last guest could not be booted ahead of a kind that has too few;
// nil where none failed.
func (m *Manager) Cold() error { return m.pool.failure() }

// Check says what Create would refuse, without starting anything: whoever is
// about to spend time or money on what will run in a sandbox asks first.
func (m *Manager) Check(ctx context.Context, req api.CreateSandbox) error {
	_, err := m.resolve(ctx, &req)
	return err
}

// Outline is Check that tells what Create would make: the row of a sandbox that has
// no identifier, because it is not there.
func (m *Manager) Outline(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error) {
	w, err := m.resolve(ctx, &req)
	if err != nil {
		return api.Sandbox{}, err
	}
	return m.row("", req, &w, api.SandboxStarting), nil
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
	// template is its name, filled in.
	template string
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
	if err = req.CheckBounds(); err != nil {
		return w, err
	}
	if req.Template == "" {
		req.Template = hostTemplate
	}
	w.template = req.Template
	if req.OnExpiry == api.ExpiryPause {
		needs = append(needs, api.CapCheckpoint)
	}
	if s, err := m.origin(ctx, req.Account, req.Template); err != nil {
		return w, err
	} else if s != nil {
		if err := m.resolveFrom(ctx, req, &w, s); err != nil {
			return w, err
		}
		return w, m.checkExpiry(ctx, req.OnExpiry, &w)
	}
	if w.backend, w.report, w.why, err = m.Choose(ctx, req.Isolation, needs...); err != nil {
		return w, err
	}
	if err = m.checkExpiry(ctx, req.OnExpiry, &w); err != nil {
		return w, err
	}
	if w.limits, w.asked, w.missing, err = resolveLimits(req.Limits, api.DefaultLimits(), w.report); err != nil {
		return w, err
	}
	w.layers, err = m.cfg.Templates.Layers(ctx, req.Template)
	return w, err
}

// admit enters a sandbox into the table, unless the manager is closing. From here on
// what it takes of the host is counted, also of one that was there before this daemon.
func (m *Manager) admit(l *live) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return api.Errorf(api.KindUnavailable, "the daemon is stopping")
	}
	if l.release == nil && !l.waits && m.cfg.Admission != nil {
		l.release = m.cfg.Admission.Hold(l.need(context.Background()))
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
	delete(m.live, l.row.ID)
	m.mu.Unlock()
	l.letGo()
}
