package sandboxes

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/filerule"
	"hortus.dev/internal/task/repo"
)

var _ repo.Preparer = (*Provider)(nil)

// DefaultForkTime bounds a fork, with its wait for capacity. The sandbox that is forked takes capacity too: if there is none for a
// child, it must end.
const DefaultForkTime = 30 * time.Second

// serviceSandbox is the sandbox of a child, in which the services of its parent run.
type serviceSandbox struct{ Sandbox }

// Serves implements repo.ServiceSandbox.
func (serviceSandbox) Serves() {}

// forkSource is the sandbox in which the services of a task run, and which is forked for those who work on it. A nil *forkSource is that of a task
// without one.
type forkSource struct {
	provider *Provider
	task     api.TaskID
	p        repo.Preparation
	// turn is held while the sandbox is started, forked or ended. The next fields belong to who has it.
	turn    chan struct{}
	sandbox repo.Sandbox
	space   api.WorkspaceID
	forks   int
	closed  bool // it cannot be forked, or not any more
	left    int  // processes that may be there still

	mu sync.Mutex
	// made are the children that nobody has opened, by their workspaces. lost counts processes that may be left of those that
	// nobody will open.
	children map[api.WorkspaceID]serviceSandbox
	lost     int
}

// Prepare implements repo.Preparer.
func (p *Provider) Prepare(task api.TaskID, what repo.Preparation) (end func(context.Context) (left int)) {
	r := &forkSource{provider: p, task: task, p: what, turn: make(chan struct{}, 1), children: map[api.WorkspaceID]serviceSandbox{}}
	p.mu.Lock()
	p.sources[task] = r
	p.mu.Unlock()
	return r.end
}

// source returns that of a task; nil if it has none.
func (p *Provider) source(task api.TaskID) *forkSource {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sources[task]
}

// workspace makes a workspace over layers, with a child that waits to be opened; "" if there is to be none, or none can be made.
func (r *forkSource) workspace(ctx context.Context, layers []repo.Layer) api.WorkspaceID {
	if r == nil || !slices.Equal(layers, r.p.Layers) {
		return ""
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return ""
	}
	if r.closed {
		return ""
	}
	err := r.start(ctx)
	if err == nil {
		var id api.WorkspaceID
		if id, err = r.fork(ctx); err == nil {
			if r.forks++; r.forks == r.p.Of {
				r.close(ctx) // its children continue without it
			}
			return id
		}
	}
	if ctx.Err() != nil {
		return "" // others may continue
	}
	// The capacity for the others is worth more than the services.
	r.provider.cfg.Logger.Info("services are started for each candidate", "task", r.task, "reason", err)
	r.close(ctx)
	return ""
}

// start starts the sandbox and its services, unless they run.
func (r *forkSource) start(ctx context.Context) error {
	if r.sandbox != nil {
		return nil
	}
	if r.provider.cfg.Forker == nil {
		return api.Errorf(api.KindUnsupported, "this daemon forks no sandboxes of tasks")
	}
	outline, err := r.provider.cfg.Planner.Outline(ctx, r.p.Sandbox)
	if err != nil {
		return err
	}
	if outline.Isolation != "gvisor" {
		return api.Errorf(api.KindUnsupported, "the %s backend cannot fork a sandbox with its workspace", outline.Isolation)
	}
	if r.space, err = r.provider.plain(ctx, r.task, r.p.Layers); err != nil {
		return err
	}
	if r.sandbox, err = orNil(r.provider.over(ctx, r.p.Sandbox, r.space, r.p.Access)); err == nil {
		err = repo.Serve(ctx, r.sandbox, r.p.Services)
	}
	if err != nil {
		r.clear(ctx)
	}
	return err
}

// fork makes a child, and waits until the services can be used in it.
func (r *forkSource) fork(ctx context.Context) (api.WorkspaceID, error) {
	c, err := r.provider.fork(ctx, r.task, r.sandbox.Info().ID, r.p)
	if err != nil {
		return "", err
	}
	id := c.Info().Workspace
	r.mu.Lock()
	r.children[id] = c
	r.mu.Unlock()
	return id, nil
}

// open returns the child that a workspace was made with, once; nil without one. If the request is another one the child ends.
func (r *forkSource) open(ctx context.Context, req api.CreateSandbox, id api.WorkspaceID, access []filerule.Access) (repo.Sandbox, error) {
	if r == nil {
		return nil, nil
	}
	r.mu.Lock()
	c, ok := r.children[id]
	delete(r.children, id)
	r.mu.Unlock()
	switch {
	case !ok:
		return nil, nil
	case reflect.DeepEqual(req, r.p.Sandbox) && slices.Equal(access, r.p.Access):
		return c, nil
	}
	_, err := c.Close(ctx)
	return nil, err
}

// unopened ends the child that a workspace was made with, if nobody has opened it. Nobody will: what was written is read, or removed.
func (p *Provider) unopened(ctx context.Context, id api.WorkspaceID) error {
	p.mu.Lock()
	sources := slices.Collect(maps.Values(p.sources))
	p.mu.Unlock()
	for _, r := range sources {
		r.mu.Lock()
		c, ok := r.children[id]
		delete(r.children, id)
		r.mu.Unlock()
		if !ok {
			continue
		}
		proof, err := c.Close(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.lost += proof.Left; err != nil {
			r.children[id] = c // end tries again
		}
		return err
	}
	return nil
}

// close ends the sandbox. No child is made any more. The caller has the turn.
func (r *forkSource) close(ctx context.Context) {
	r.closed = true
	r.clear(ctx)
}

// clear ends the sandbox, if there is one, and removes its workspace.
func (r *forkSource) clear(ctx context.Context) {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	var err error
	if r.sandbox != nil {
		if err = r.shut(late, r.sandbox); err == nil {
			r.sandbox = nil
		}
	}
	if r.space != "" && err == nil {
		if err = r.provider.Discard(late, r.space); err == nil {
			r.space = ""
		}
	}
	if err != nil {
		r.closed = true // what is left of it must not be forked
		r.provider.cfg.Logger.Error("the sandbox that was prepared for candidates was not ended", "task", r.task, "err", err)
	}
}

// shut ends a sandbox, and counts what is left of it.
func (r *forkSource) shut(ctx context.Context, c repo.Sandbox) error {
	proof, err := c.Close(ctx)
	if err != nil {
		proof.Left = max(1, proof.Left)
	}
	r.left += proof.Left
	return err
}

// end ends what was started for the task and nobody opened.
func (r *forkSource) end(ctx context.Context) (left int) {
	r.turn <- struct{}{} // a fork is bounded
	defer func() { <-r.turn }()
	r.provider.mu.Lock()
	if r.provider.sources[r.task] == r {
		delete(r.provider.sources, r.task)
	}
	r.provider.mu.Unlock()
	r.left = 0 // what could not be ended is tried again
	r.close(ctx)
	r.mu.Lock()
	made := r.children
	r.children = map[api.WorkspaceID]serviceSandbox{}
	r.left += r.lost
	r.mu.Unlock()
	for id, c := range made { // the workspace is a candidate's
		if err := r.shut(ctx, c); err != nil {
			r.provider.cfg.Logger.Error("a sandbox that was forked for a candidate was not ended", "task", r.task, "workspace", id, "err", err)
		}
	}
	return r.left
}
