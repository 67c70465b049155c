package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/choice"
	"hortus.dev/internal/sandbox/forkspace"
	"hortus.dev/internal/sandbox/life"
	"hortus.dev/internal/sandbox/outgoing"
	"hortus.dev/internal/sandbox/pool"
)

// Forker creates sandboxes with the state of a running one.
type Forker struct {
	planner    *Planner
	origins    *origins
	creator    *Creator
	saver      *Saver
	table      *table
	lifecycle  *lifecycle
	chooser    *choice.Chooser
	pool       *pool.Pool
	facts      facts
	workspaces sandbox.WorkspaceForks // nil if sandboxes with a durable workspace cannot be forked
	log        *slog.Logger
}

// Fork creates sandboxes with the current state of a running one, each with its own identity. The
// parent is paused for a moment. Each child succeeds or fails separately. If the parent has a durable
// workspace, each child has a fork of it, which its account keeps.
//
// Errors: KindInvalid for an invalid request; those of Snapshot. With a durable workspace: KindUnsupported,
// naming the capability, where memory cannot be saved; KindExhausted for an account with too
// many workspaces, or if too much was written to this one.
func (f *Forker) Fork(ctx context.Context, id api.SandboxID, req api.ForkSandbox) (api.ForkResult, error) {
	return f.ForkFor(ctx, id, req, "")
}

// ForkFor is Fork for a task, which the children and their workspaces belong to.
func (f *Forker) ForkFor(ctx context.Context, id api.SandboxID, req api.ForkSandbox, task api.TaskID) (api.ForkResult, error) {
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
	store, err := f.origins.store()
	if err != nil {
		return none, err
	}
	if err := api.CheckLabels(req.Labels); err != nil {
		return none, err
	}
	if err := api.CheckOnRestore(req.OnRestore); err != nil {
		return none, err
	}
	in, err := f.saver.saver(ctx, id)
	if err != nil {
		return none, err
	}
	parent := in.Row()
	if err := envReadable(parent); err != nil {
		return none, err
	}
	env := maps.Clone(parent.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, req.Env)
	egress, err := f.forkEgress(ctx, in, req)
	if err != nil {
		return none, err
	}
	env = egress.Environment(env)
	if err := api.CheckEnv(env); err != nil {
		return none, err
	}
	spaces, err := forkspace.Open(ctx, forkspace.Config{
		Forks: f.workspaces, Parent: in.workspace, Row: parent, Report: f.chooser.Report(ctx, in.backend), Task: task, Count: req.Count, FilesOnly: req.FilesOnly, Logger: f.log,
	})
	if err != nil {
		return none, err
	}
	defer spaces.Close()
	dir, remove, err := store.Scratch(f.saver.imageSize(ctx, in))
	if err != nil {
		return none, err
	}
	defer func() {
		if err := remove(); err != nil {
			f.log.Error("the image of a fork was not removed", "sandbox", id, "error", err)
		}
	}()
	children := f.children(ctx, in, req.Count, !req.FilesOnly && spaces == nil)
	defer children.Close()
	ids := children.IDs()
	saved, err := f.saver.save(ctx, in, dir, sandbox.SaveOptions{Files: req.FilesOnly, CopyMemory: req.CopyMemory, Fork: true, Standstill: spaces.Standstill()})
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
		ttl = max(in.Left(), time.Second)
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
			row.Owner, row.CreatedAt, row.Reason = f.planner.owner, f.planner.now().UTC(), ""
			row.Build, row.Held, row.MemoryKills = f.planner.build, false, 0
			row.ExpiresAt = row.CreatedAt.Add(ttl)
			row.OnRestore = cmp.Or(req.OnRestore, parent.OnRestore)
			row.Provision = nil // a caller's task has one sandbox
			if req.Key != "" {
				row.Key, row.MaxTTLMS = req.Key, req.MaxTTLMS
			}
			row.Lineage = parent.LineageID()
			egress.Set(&row)
			ws, err := spaces.Of(ctx, i, &row)
			var child api.Sandbox
			if err == nil {
				child, err = f.child(ctx, in, row, ws, dir, children)
			}
			if err == nil {
				err = f.unlessKept(ctx, ids[i], spaces.Keep(ctx, i))
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
	f.facts.tell(in, api.EventForked, said)
	return out, nil
}

// forkEgress returns the policy of the children of a fork: that of the parent, unless the request
// has one. What the caller's key does not allow is denied to them in either case.
func (f *Forker) forkEgress(ctx context.Context, in *instance, req api.ForkSandbox) (outgoing.Resolved, error) {
	parent := in.Row()
	ceiling := parent.MaxEgress
	if req.Key != "" {
		var err error
		if ceiling, err = f.planner.policies.Ceiling(ctx, req.MaxEgress); err != nil {
			return outgoing.Resolved{}, err
		}
	}
	secrets, err := outgoing.Inherit(parent, req.Secrets, f.planner.now())
	if err != nil {
		return outgoing.Resolved{}, err
	}
	if req.Egress == nil {
		return outgoing.Inherited(parent, secrets, req.Secrets, ceiling), nil
	}
	out, err := f.planner.policies.Resolve(ctx, outgoing.Request{Policy: req.Egress, Ceiling: ceiling, Secrets: secrets, Account: parent.Account, Had: parent.EgressPolicy})
	if err == nil {
		err = f.chooser.Advise(ctx, out.Check(f.chooser.Report(ctx, in.backend)))
	}
	return out, err
}

// unlessKept ends a child whose workspace could not be kept.
func (f *Forker) unlessKept(ctx context.Context, id api.SandboxID, err error) error {
	if in, ok := f.table.lookup(id); ok && err != nil {
		_, kerr := f.lifecycle.end(context.WithoutCancel(ctx), in, "its workspace could not be kept: "+err.Error())
		return errors.Join(err, kerr)
	}
	return err
}

// children begins the children of a fork: early those that can start before the state of their parent is
// saved, which needs no workspace of theirs. As many start now as leave a processor for the save.
func (f *Forker) children(ctx context.Context, parent *instance, count int, early bool) *pool.Children {
	now := 0
	if early {
		now = min(count, max(1, runtime.NumCPU()-1))
	}
	return f.pool.Children(ctx, pool.Want{Backend: parent.backend, Spec: parent.spec()}, count, now)
}

// child starts one child of a fork, with its workspace, which may be nil.
func (f *Forker) child(ctx context.Context, parent *instance, row api.Sandbox, ws *sandbox.Workspace, dir string, children *pool.Children) (api.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return api.Sandbox{}, err
	}
	in := f.lifecycle.instance(row, parent.backend, life.Queued)
	in.layers, in.asked, in.workspace = parent.layers, parent.asked, ws
	return f.creator.start(ctx, in, restoreTimeout, sandbox.OpRestore, func(ctx context.Context) (sandbox.Machine, error) {
		return restoreAndClaim(ctx, in, func(ctx context.Context, spec sandbox.Spec) (sandbox.Machine, error) {
			return children.Restore(ctx, spec, dir)
		})
	})
}
