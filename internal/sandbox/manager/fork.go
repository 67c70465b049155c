package manager

import (
	"context"
	"fmt"
	"hortus.dev/internal/sandbox"
	"maps"
	"runtime"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/choice"
	"hortus.dev/internal/sandbox/life"
)

// Fork creates sandboxes with the current state of a running one, each with its own identity. The
// parent is paused for a moment. Each child succeeds or fails separately.
//
// Errors: KindInvalid for an invalid request; those of Snapshot.
func (m saves) Fork(ctx context.Context, id api.SandboxID, req api.ForkSandbox) (api.ForkResult, error) {
	none := api.ForkResult{Parent: id}
	if req.Count == 0 {
		req.Count = 1
	}
	if req.Count < 0 || req.Count > api.MaxForks {
		return none, api.Errorf(api.KindInvalid, "%d children: use 1 to %d", req.Count, api.MaxForks)
	}
	ttl, err := choice.TTL(req.TTLMS)
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
	parent := l.Row()
	if err := envReadable(parent); err != nil {
		return none, err
	}
	env := maps.Clone(parent.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, req.Env)
	egress, err := m.forkEgress(ctx, l, req)
	if err != nil {
		return none, err
	}
	env = egress.Environment(env)
	if err := api.CheckEnv(env); err != nil {
		return none, err
	}
	dir, remove, err := store.Scratch(m.imageSize(ctx, l))
	if err != nil {
		return none, err
	}
	defer func() {
		if err := remove(); err != nil {
			m.log.Error("the image of a fork was not removed", "sandbox", id, "error", err)
		}
	}()
	ids := make([]api.SandboxID, req.Count)
	for i := range ids {
		ids[i] = api.NewSandboxID()
	}
	early := &early{c: m.core}
	if !req.FilesOnly {
		early.expect(ctx, l, ids[:min(len(ids), max(1, runtime.NumCPU()-1))], dir)
	}
	defer early.drop()
	saved, err := m.save(ctx, l, dir, sandbox.SaveOptions{Files: req.FilesOnly, CopyMemory: req.CopyMemory, Fork: true})
	if err != nil {
		return none, err
	}
	if saved.Done != nil {
		defer saved.Done()
	}
	out := api.ForkResult{
		Parent: id, Kind: saved.Kind, Why: saved.Why, PausedMS: saved.Paused.Milliseconds(), Children: make([]api.ForkChild, req.Count),
	}
	if req.TTLMS == 0 {
		ttl = max(l.Left(), time.Second)
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
				row.Key, row.MaxTTLMS = req.Key, req.MaxTTLMS
			}
			row.Lineage = parent.LineageID()
			egress.Set(&row)
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
	m.tell(l, api.EventForked, said)
	return out, nil
}

// child starts one child of a fork.
func (m saves) child(ctx context.Context, parent *live, row api.Sandbox, restore func(context.Context, sandbox.Spec) (sandbox.Prepared, error)) (api.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return api.Sandbox{}, err
	}
	l := m.newLive(row, parent.backend, life.Queued)
	l.layers, l.asked = parent.layers, parent.asked
	return m.start(ctx, l, restoreTimeout, sandbox.OpRestore, func(ctx context.Context) (sandbox.Machine, error) {
		return m.restoreAndClaim(ctx, l, restore)
	})
}
