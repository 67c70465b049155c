package sandbox

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/layer"
)

// startTimeout bounds a backend's Start.
const startTimeout = 30 * time.Second

// Create boots a sandbox and returns when its guest answers. ctx bounds the
// start; the sandbox lives until its deadline.
func (m *Manager) Create(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error) {
	w, err := m.resolve(ctx, &req)
	if err != nil {
		return api.Sandbox{}, err
	}
	now := m.now().UTC()
	row := api.Sandbox{
		ID: api.NewSandboxID(), State: api.SandboxStarting,
		Isolation: w.backend.Name(), IsolationWhy: w.why, Template: req.Template,
		Limits: w.limits, Unenforced: w.missing, Identities: identities(w.report),
		Egress: "none", Env: req.Env, Labels: req.Labels, Task: req.Task,
		Owner: m.cfg.Owner, CreatedAt: now, ExpiresAt: now.Add(w.ttl),
	}
	if _, ok := w.report.Has(api.CapNoNetwork); !ok {
		row.Egress = "host"
	}
	l := &live{
		row: row, backend: w.backend, execs: map[api.ExecID]*running{},
		moved: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	if err := m.admit(l); err != nil {
		return api.Sandbox{}, err
	}
	// The row stands before anything else does: whatever a crash leaves behind
	// from here on has a row that leads to it. A caller who goes away must not
	// leave it in doubt whether the row is there.
	if err := m.cfg.Rows.InsertSandbox(context.WithoutCancel(ctx), row); err != nil {
		m.forget(l)
		return api.Sandbox{}, err
	}

	startCtx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	machine, err := w.backend.Start(startCtx, Spec{
		ID: row.ID, Layers: w.layers, Limits: w.limits, Asked: w.asked, Env: req.Env, Hostname: "sandbox",
	})
	if err != nil {
		m.settle(l, api.SandboxEnded, "start failed: "+err.Error(), nil)
		return api.Sandbox{}, err
	}
	link := machine.Link()
	l.mu.Lock()
	l.machine = machine
	l.guest = envd.NewClient(envd.ClientConfig{Dial: link.Open})
	l.row.State = api.SandboxRunning
	row = l.row
	l.mu.Unlock()
	if err := m.cfg.Rows.UpdateSandbox(ctx, row); err != nil {
		m.end(context.WithoutCancel(ctx), l, "row not stored: "+err.Error())
		return api.Sandbox{}, err
	}
	m.event(row.ID, api.EventSandboxState, api.SandboxStateEvent{State: api.SandboxRunning})
	m.wg.Go(func() { m.watch(l) })
	return row, nil
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
}

// resolve makes out a request and fills in its template.
func (m *Manager) resolve(ctx context.Context, req *api.CreateSandbox) (w wish, err error) {
	if w.ttl, err = checkTTL(req.TTLMS); err != nil {
		return w, err
	}
	if err = checkEnv(req.Env); err != nil {
		return w, err
	}
	if w.backend, w.report, w.why, err = m.Choose(ctx, req.Isolation); err != nil {
		return w, err
	}
	if w.limits, w.asked, w.missing, err = resolveLimits(req.Limits, w.report); err != nil {
		return w, err
	}
	if req.Template == "" {
		req.Template = "host"
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

func (m *Manager) forget(l *live) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.live, l.row.ID)
}
