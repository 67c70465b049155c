package provision

import (
	"context"
	"maps"
	"sync"
	"time"

	"hortus.dev/api"
)

// Sandboxes makes sandboxes, on behalf of the context's principal.
type Sandboxes interface {
	Create(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error)
	Get(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	// Provisioned returns the newest sandbox of a task of the principal's account; an ended
	// one only if ended is set. KindNotFound if there is none.
	Provisioned(ctx context.Context, task string, ended bool) (api.Sandbox, error)
	Kill(ctx context.Context, id api.SandboxID) (api.Sandbox, api.Proof, error)
}

// Config is what a service needs.
type Config struct {
	Sandboxes Sandboxes
}

// Service gives tasks their sandboxes. Its methods may be called at the same time.
type Service struct {
	sandboxes Sandboxes
	ctx       context.Context
	cancel    context.CancelFunc
	wg        sync.WaitGroup

	mu     sync.Mutex
	closed bool
	flying map[task]*flight
}

// task is a caller's task.
type task struct{ account, id string }

// flight is a sandbox that is being looked for, and made.
type flight struct {
	req  api.ProvisionRequest
	done chan struct{}
	// What follows is set when done is closed.
	sandbox api.Sandbox
	made    bool
	err     error
}

// New makes a service. [Service.Close] ends it.
func New(cfg Config) *Service {
	s := &Service{sandboxes: cfg.Sandboxes, flying: map[task]*flight{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close refuses new sandboxes, ends those that are being made and waits for them.
func (s *Service) Close(context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
	return nil
}

// Provision returns the sandbox of a task, and whether it was created now, by this request or a
// concurrent one.
//
// Errors: KindInvalid for an invalid request, KindConflict if the task has a live sandbox of a
// different request; those of the creation.
func (s *Service) Provision(ctx context.Context, req api.ProvisionRequest) (api.Sandbox, bool, error) {
	req, err := check(req)
	if err != nil {
		return api.Sandbox{}, false, err
	}
	f, first, err := s.board(ctx, req)
	if err != nil {
		return api.Sandbox{}, false, err
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		return api.Sandbox{}, false, ctx.Err()
	}
	if f.err != nil {
		return api.Sandbox{}, false, f.err
	}
	return f.sandbox, f.made && first, differs(madeBy(f.sandbox), req)
}

// madeBy is the request that a sandbox was made by. Variables are the sandbox's.
func madeBy(b api.Sandbox) *api.ProvisionRequest {
	req := *b.Provision
	req.EnvVars = b.Env
	return &req
}

// board joins the making of a task's sandbox, or begins it.
func (s *Service) board(ctx context.Context, req api.ProvisionRequest) (f *flight, first bool, err error) {
	t := task{api.PrincipalOf(ctx).Account, req.TaskID}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false, api.Errorf(api.KindUnavailable, "the daemon is stopping")
	}
	if f := s.flying[t]; f != nil {
		return f, false, differs(&f.req, req)
	}
	f = &flight{req: req, done: make(chan struct{})}
	s.flying[t] = f
	s.wg.Go(func() {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		stop := context.AfterFunc(s.ctx, cancel)
		defer stop()
		f.sandbox, f.made, f.err = s.fly(ctx, t, req)
		s.mu.Lock()
		delete(s.flying, t)
		s.mu.Unlock()
		close(f.done)
	})
	return f, true, nil
}

// fly finds the task's sandbox or makes it.
func (s *Service) fly(ctx context.Context, t task, req api.ProvisionRequest) (api.Sandbox, bool, error) {
	have, err := s.of(ctx, t, false)
	if err == nil {
		return have, false, nil
	}
	if api.KindOf(err) != api.KindNotFound {
		return api.Sandbox{}, false, err
	}
	sandbox, err := s.sandboxes.Create(ctx, api.CreateSandbox{
		Template: req.ImageID, TTLMS: req.TTLSeconds * 1000, Env: req.EnvVars, Account: t.account, Provision: &req,
	})
	if api.KindOf(err) == api.KindNotFound {
		err = api.Errorf(api.KindInvalid, "imageId %.64q: %w", req.ImageID, err).
			WithHint("imageId must be the name of a template; %s always exists", api.HostTemplate)
	}
	return sandbox, true, err
}

// of returns the live sandbox of a task, or with ended the last one.
func (s *Service) of(ctx context.Context, t task, ended bool) (api.Sandbox, error) {
	b, err := s.sandboxes.Provisioned(ctx, t.id, ended)
	if api.KindOf(err) == api.KindNotFound {
		err = absent(t.id)
	}
	return b, err
}

func absent(id string) error {
	return api.Errorf(api.KindNotFound, "unknown provisioned sandbox %.128q", id)
}

// Find returns a sandbox by its ID or its task's ID: the live one, or else the last one.
func (s *Service) Find(ctx context.Context, idOrTask string) (api.Sandbox, error) {
	if id := api.SandboxID(idOrTask); id.Valid() {
		b, err := s.sandboxes.Get(ctx, id)
		if api.KindOf(err) == api.KindNotFound || err == nil && b.Provision == nil {
			err = absent(idOrTask)
		}
		return b, err
	}
	t := task{api.PrincipalOf(ctx).Account, idOrTask}
	b, err := s.of(ctx, t, false)
	if api.KindOf(err) == api.KindNotFound {
		b, err = s.of(ctx, t, true)
	}
	return b, err
}

// lookAgain is how often a sandbox that neither runs nor has ended is looked at.
const lookAgain = 50 * time.Millisecond

// Wait waits until a sandbox runs. KindTimeout when that takes longer than timeout,
// KindConflict when it is paused or has ended.
func (s *Service) Wait(ctx context.Context, idOrTask string, timeout time.Duration) (api.Sandbox, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout,
		api.Errorf(api.KindTimeout, "sandbox %.128q is not running after %s", idOrTask, timeout))
	defer cancel()
	if f := s.flight(ctx, idOrTask); f != nil {
		select {
		case <-f.done:
			if f.err != nil {
				return api.Sandbox{}, f.err
			}
		case <-ctx.Done():
			return api.Sandbox{}, context.Cause(ctx)
		}
	}
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for {
		b, err := s.Find(ctx, idOrTask)
		switch {
		case ctx.Err() != nil:
			return b, context.Cause(ctx)
		case err != nil:
			return b, err
		case b.State == api.SandboxRunning:
			return b, nil
		case b.State != api.SandboxStarting:
			return b, api.Errorf(api.KindConflict, "sandbox %s is %s: %s", b.ID, b.State, b.Reason).
				WithHint("provision it again for a new one, or resume it")
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return b, context.Cause(ctx)
		}
	}
}

// Destroy ends a sandbox, with proof. If it is being created, it is ended afterwards.
func (s *Service) Destroy(ctx context.Context, idOrTask string) (api.Sandbox, api.Proof, error) {
	if f := s.flight(ctx, idOrTask); f != nil {
		select {
		case <-f.done:
		case <-ctx.Done():
			return api.Sandbox{}, api.Proof{}, ctx.Err()
		}
	}
	b, err := s.Find(ctx, idOrTask)
	if err != nil {
		return b, api.Proof{}, err
	}
	return s.sandboxes.Kill(ctx, b.ID)
}

func (s *Service) flight(ctx context.Context, id string) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flying[task{api.PrincipalOf(ctx).Account, id}]
}

// check refuses what makes no sense and fills in the defaults.
func check(req api.ProvisionRequest) (api.ProvisionRequest, error) {
	if !api.ValidTaskID(req.TaskID) {
		return req, api.Errorf(api.KindInvalid, "taskId %.130q is not valid", req.TaskID).
			WithHint("use 1 to %d letters, digits and . _ : -, beginning with a letter or a digit; the ID of a sandbox is not allowed", api.MaxTaskID)
	}
	most := int64(api.MaxTTL / time.Second)
	if req.TTLSeconds == 0 {
		req.TTLSeconds = int64(api.DefaultTTL / time.Second)
	}
	if req.TTLSeconds < 1 || req.TTLSeconds > most {
		return req, api.Errorf(api.KindInvalid, "ttlSeconds is out of range: use 1 to %d", most)
	}
	if req.ImageID == "" {
		req.ImageID = api.HostTemplate
	}
	return req, nil
}

// differs returns an error that names the difference between two requests of a task.
func differs(have *api.ProvisionRequest, want api.ProvisionRequest) error {
	what := ""
	switch {
	case have.ImageID != want.ImageID:
		what = "imageId"
	case have.TTLSeconds != want.TTLSeconds:
		what = "ttlSeconds"
	case !maps.Equal(have.EnvVars, want.EnvVars):
		what = "envVars"
	default:
		return nil
	}
	return api.Errorf(api.KindConflict, "task %s has a sandbox that was created with another %s", want.TaskID, what).
		WithHint("use it as it is, or destroy it first")
}
