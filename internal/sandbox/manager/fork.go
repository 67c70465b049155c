package manager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/choice"
	"hortus.dev/internal/sandbox/forkspace"
	"hortus.dev/internal/sandbox/life"
	"hortus.dev/internal/sandbox/pool"
)

// Fork creates sandboxes with the current state of a running one, each with its own identity. The
// parent is paused for a moment. Each child succeeds or fails separately. If the parent has a durable
// workspace, each child has a fork of it, which its account keeps.
//
// Errors: KindInvalid for an invalid request; those of Snapshot. With a durable workspace: KindUnsupported,
// naming the capability, where memory cannot be saved; KindExhausted for an account with too
// many workspaces, or if too much was written to this one.
func (m saves) Fork(ctx context.Context, id api.SandboxID, req api.ForkSandbox) (api.ForkResult, error) {
	return m.ForkFor(ctx, id, req, "")
}

// ForkFor is Fork for a task, which the children and their workspaces belong to.
func (m saves) ForkFor(ctx context.Context, id api.SandboxID, req api.ForkSandbox, task api.TaskID) (api.ForkResult, error) {
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
	l, err := m.saver(ctx, id)
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
	spaces, err := forkspace.Open(ctx, forkspace.Config{
		Forks: m.cfg.Workspaces, Parent: l.workspace, Row: parent, Report: m.Report(ctx, l.backend), Task: task, Count: req.Count, FilesOnly: req.FilesOnly, Logger: m.log,
	})
	if err != nil {
		return none, err
	}
	defer spaces.Close()
	dir, remove, err := store.Scratch(m.imageSize(ctx, l))
	if err != nil {
		return none, err
	}
	defer func() {
		if err := remove(); err != nil {
			m.log.Error("the image of a fork was not removed", "sandbox", id, "error", err)
		}
	}()
	children := m.children(ctx, l, req.Count, !req.FilesOnly && spaces == nil)
	defer children.Close()
	ids := children.IDs()
	saved, err := m.save(ctx, l, dir, sandbox.SaveOptions{Files: req.FilesOnly, CopyMemory: req.CopyMemory, Fork: true, Standstill: spaces.Standstill()})
	if err != nil {
		return none, err
	}
	if saved.Done != nil {
		defer saved.Done()
	}
	out := api.ForkResult{
		Parent: id, Kind: saved.Kind, Why: saved.Why, Memory: saved.Memory, MemoryWhy: saved.MemoryWhy, PausedMS: saved.Paused.Milliseconds(), Children: make([]api.ForkChild, req.Count),
	}
	spaces.Others(ctx)
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
			ws, err := spaces.Of(ctx, i, &row)
			var child api.Sandbox
			if err == nil {
				child, err = m.child(ctx, l, row, ws, dir, children)
			}
			if err == nil {
				err = m.unlessKept(ctx, ids[i], spaces.Keep(ctx, i))
			}
			if err != nil {
				out.Children[i].Error = api.AsError(err)
				return
			}
			out.Children[i].Sandbox = &child
		})
	}
	wg.Wait()
	said := api.ForkEvent{Kind: out.Kind, Memory: out.Memory, PausedMS: out.PausedMS, Children: []api.SandboxID{}}
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

// unlessKept ends a child whose workspace could not be kept.
func (m saves) unlessKept(ctx context.Context, id api.SandboxID, err error) error {
	if l, ok := m.lookup(id); ok && err != nil {
		_, kerr := m.end(context.WithoutCancel(ctx), l, "its workspace could not be kept: "+err.Error())
		return errors.Join(err, kerr)
	}
	return err
}

// children begins the children of a fork: early those that can start before the state of their parent is
// saved, which needs no workspace of theirs. As many start now as leave a processor for the save.
func (m saves) children(ctx context.Context, parent *live, count int, early bool) *pool.Children {
	now := 0
	if early {
		now = min(count, max(1, runtime.NumCPU()-1))
	}
	return m.pool.Children(ctx, pool.Want{Backend: parent.backend, Spec: parent.spec()}, count, now)
}

// child starts one child of a fork, with its workspace, which may be nil.
func (m saves) child(ctx context.Context, parent *live, row api.Sandbox, ws *sandbox.Workspace, dir string, children *pool.Children) (api.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return api.Sandbox{}, err
	}
	l := m.newLive(row, parent.backend, life.Queued)
	l.layers, l.asked, l.workspace = parent.layers, parent.asked, ws
	return m.start(ctx, l, restoreTimeout, sandbox.OpRestore, func(ctx context.Context) (sandbox.Machine, error) {
		return m.restoreAndClaim(ctx, l, func(ctx context.Context, spec sandbox.Spec) (sandbox.Machine, error) {
			return children.Restore(ctx, spec, dir)
		})
	})
}
