package sandbox

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"sync"
	"time"

	"hortus.dev/api"
)

// Fork makes sandboxes that go on from where a running one is now, each by itself
// and with an identity of its own. The parent stands still for a moment and goes
// on. Each child succeeds or fails by itself.
//
// Errors: KindInvalid for a request that makes no sense; those of Snapshot.
func (m *Manager) Fork(ctx context.Context, id api.SandboxID, req api.ForkSandbox) (api.ForkResult, error) {
	none := api.ForkResult{Parent: id}
	if req.Count == 0 {
		req.Count = 1
	}
	if req.Count < 0 || req.Count > api.MaxForks {
		return none, api.Errorf(api.KindInvalid, "%d children; a fork has 1 to %d", req.Count, api.MaxForks)
	}
	ttl, err := checkTTL(req.TTLMS)
	if err != nil {
		return none, err
	}
	store, err := m.snapshots()
	if err != nil {
		return none, err
	}
	if err := api.CheckLabels(req.Labels); err != nil {
		return none, err
	}
	l, err := m.savable(ctx, id)
	if err != nil {
		return none, err
	}
	parent := l.snapshot()
	if err := envReadable(parent); err != nil {
		return none, err
	}
	env := maps.Clone(parent.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, req.Env)
	if err := api.CheckEnv(env); err != nil {
		return none, err
	}
	dir, remove, err := store.Scratch(m.need(ctx, l))
	if err != nil {
		return none, err
	}
	defer func() {
		if err := remove(); err != nil {
			m.log.Error("the image of a fork is not removed", "sandbox", id, "error", err)
		}
	}()
	ids := make([]api.SandboxID, req.Count)
	for i := range ids {
		ids[i] = api.NewSandboxID()
	}
	early := &early{m: m}
	if !req.FilesOnly {
		early.expect(ctx, l, ids[:min(len(ids), max(1, runtime.NumCPU()-1))], dir)
	}
	defer early.drop()
	saved, err := m.save(ctx, l, dir, SaveOptions{Files: req.FilesOnly})
	if err != nil {
		return none, err
	}
	out := api.ForkResult{
		Parent: id, Kind: saved.Kind, Why: saved.Why, PausedMS: saved.Paused.Milliseconds(), Children: make([]api.ForkChild, req.Count),
	}
	if req.TTLMS == 0 {
		ttl = max(l.left(), time.Second)
	}
	// Side by side as far as the machine's processors go.
	turns := make(chan struct{}, runtime.NumCPU())
	var wg sync.WaitGroup
	for i := range out.Children {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			row := parent
			row.ID, row.State, row.Parent, row.Snapshot = ids[i], api.SandboxStarting, id, ""
			row.IsolationWhy, row.Labels = fmt.Sprintf("forked from %s", id), req.Labels
			row.Env, row.EnvNames = env, envNames(env)
			row.Owner, row.CreatedAt, row.Reason = m.cfg.Owner, m.now().UTC(), ""
			row.Build, row.Held, row.MemoryKills = m.cfg.Build, false, 0
			row.ExpiresAt = row.CreatedAt.Add(ttl)
			row.Provision = nil // a caller's task has one sandbox
			if req.Key != "" {
				row.Key = req.Key
			}
			child, err := m.child(ctx, l, row, early.restore(ids[i], l, dir))
			if err != nil {
				out.Children[i].Error = api.AsError(err)
				return
			}
			out.Children[i].Sandbox = &child
		})
	}
	wg.Wait()
	said := api.ForkEvent{Kind: out.Kind, PausedMS: out.PausedMS, Children: []api.SandboxID{}}
	for _, c := range out.Children {
		if c.Sandbox == nil {
			said.Failed++
			continue
		}
		said.Children = append(said.Children, c.Sandbox.ID)
	}
	l.tell(m, api.EventForked, said)
	return out, nil
}

// child starts one child of a fork.
func (m *Manager) child(ctx context.Context, parent *live, row api.Sandbox, restore func(context.Context, Spec) (Prepared, error)) (api.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return api.Sandbox{}, err
	}
	l := newLive(row, parent.backend)
	l.layers, l.asked = parent.layers, parent.asked
	return m.raise(ctx, l, restore)
}

// raise enters a sandbox into the table and starts it from a saved state.
func (m *Manager) raise(ctx context.Context, l *live, restore func(context.Context, Spec) (Prepared, error)) (api.Sandbox, error) {
	if err := m.enter(ctx, l); err != nil {
		return api.Sandbox{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, restoreTimeout)
	defer cancel()
	restoring, end := m.step(ctx, Step{Op: OpRestore, Sandbox: l.row.ID})
	machine, err := restore(restoring, l.spec())
	end(Outcome{Isolation: l.row.Isolation, Err: err})
	if err != nil {
		m.settle(l, api.SandboxEnded, "start failed: "+err.Error(), nil)
		return api.Sandbox{}, err
	}
	l.run(machine)
	if err = m.open(); err == nil {
		err = machine.Claim(ctx, l.row.Env)
	}
	if err == nil {
		l.mu.Lock()
		l.row.State = api.SandboxRunning
		m.correct(l)
		row := l.row
		l.mu.Unlock()
		if err = m.cfg.Rows.UpdateSandbox(context.WithoutCancel(ctx), row); err == nil {
			m.mark(ctx, l)
			m.begin(l)
			return row, nil
		}
	}
	if _, kerr := m.end(context.WithoutCancel(ctx), l, "start failed: "+err.Error()); kerr != nil {
		m.log.Error("a sandbox that could not start was not killed", "sandbox", l.row.ID, "error", kerr)
	}
	return api.Sandbox{}, err
}

// spec is what a sandbox is started from, by its row. One that goes on from the state
// of another that runs has a name of its own: programs may tell each other apart by it.
func (l *live) spec() Spec {
	name := hostname
	if l.row.Parent != "" {
		name = string(l.row.ID)
	}
	return Spec{ID: l.row.ID, Layers: l.layers, Limits: l.row.Limits, Asked: l.asked, Env: l.row.Env, Hostname: name, Template: l.row.Template}
}
