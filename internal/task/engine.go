package task

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/observe"
	"hortus.dev/internal/task/durable"
	"hortus.dev/internal/task/recall"
	"hortus.dev/internal/task/repo"
)

// Store keeps tasks. Its methods may be called from several goroutines.
type Store interface {
	InsertTask(ctx context.Context, t api.Task) error
	// UpdateTask replaces the row of t, its attempts excepted.
	UpdateTask(ctx context.Context, t api.Task) error
	// Task reads one with its attempts; KindNotFound when there is none.
	Task(ctx context.Context, id api.TaskID) (api.Task, error)
	// PutAttempt inserts or replaces attempt a.N of a task.
	PutAttempt(ctx context.Context, id api.TaskID, a api.Attempt) error
	// UnfinishedTasks lists the tasks that are not done and belong to others.
	UnfinishedTasks(ctx context.Context, notOwner api.OwnerID) ([]api.Task, error)
}

// Log takes facts.
type Log interface {
	Append(ctx context.Context, s api.Stream, t api.EventType, data any) (api.Event, error)
}

// Config is what an engine is made of. All fields but Record, Tools, Advise,
// Check, Repositories, Now and Logger must be set.
type Config struct {
	Store Store
	Log   Log
	// Model finds a model by its name; KindNotFound or KindInvalid, with a
	// hint, for one that is not there.
	Model func(name string) (model.Model, error)
	// Record begins a recording at a path that holds nothing yet; models are the
	// models' names by role. Nil refuses every request for one.
	Record    func(path string, models map[string]string) (Recording, error)
	Sandboxes agent.Sandboxes
	// Tools lists the programs that the sandboxes of a request would have. It
	// may be nil: then a missing interpreter is found by running.
	Tools func(context.Context, api.CreateSandbox) ([]api.Tool, error)
	// Advise says, for the diagnosis, how the sandboxes of a request get what they lack.
	// It may be nil, and may have nothing to say.
	Advise func(context.Context, api.CreateSandbox, observe.Lack) string
	// Check is what the sandboxes would refuse, before a model is asked. It
	// may be nil.
	Check func(context.Context, api.CreateSandbox) error
	// Repositories runs the tasks that are about a repository; nil refuses them.
	Repositories Repositories
	// OffLimits are the globs of files that are off limits in every repository, before
	// those of a request. See api.FilePolicy.
	OffLimits []string
	// Journal keeps the steps of tasks on repositories, so that they go on after the death of their daemon. It may be
	// nil: then they are lost with it. Events reads the events of a task, and Appended is told of the last one, which
	// is stored with the end of a journal; both are used only with a journal.
	Journal  *durable.Journal
	Events   func(ctx context.Context, s api.Stream, after int64, limit int) ([]api.Event, error)
	Appended func(api.Event)
	// Lessons are what earlier tasks taught; nil for none.
	Lessons Lessons
	// Dir holds one folder for each task, with the whole output of its attempts.
	Dir    string
	Owner  api.OwnerID
	Now    func() time.Time
	Logger *slog.Logger
}

// Engine runs tasks. Its methods may be called from several goroutines.
type Engine struct {
	cfg        Config
	wg         sync.WaitGroup
	resumables resumables

	mu     sync.Mutex
	closed bool
	live   map[api.TaskID]*running
	// deliveries of tasks that are done are ended by their functions.
	deliveries map[api.TaskID]context.CancelFunc
}

// running is a task that is not done.
type running struct {
	cancel context.CancelFunc
	done   chan struct{}
	// once makes the begin of a cancellation a single fact.
	once sync.Once
	log  *emitter
	// run is the journal of a task that survives its daemon, and told counts the events from before; nil for none.
	run  *durable.Run
	told *recall.Told
}

// New makes an engine. [Engine.Close] ends it.
func New(cfg Config) *Engine {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Engine{cfg: cfg, live: map[api.TaskID]*running{}, deliveries: map[api.TaskID]context.CancelFunc{}}
}

// Create checks a request, stores it and starts it. The task runs on after ctx
// ended. Errors: KindInvalid for a request that makes no sense, KindNotFound for
// a replay of what is not there, KindUnavailable after Close.
func (e *Engine) Create(ctx context.Context, req api.CreateTask) (api.Task, error) {
	account, key := req.Sandbox.Account, req.Sandbox.Key
	req, err := e.check(ctx, req)
	// A replay takes everything else from the task before.
	req.Sandbox.Account, req.Sandbox.Key = account, key
	if err != nil {
		return api.Task{}, err
	}
	if e.cfg.Check != nil {
		if err := checkSandbox(ctx, e.cfg.Check, req); err != nil {
			return api.Task{}, err
		}
	}
	program, err := e.program(ctx, req)
	if err != nil {
		return api.Task{}, err
	}
	t := api.Task{
		ID: api.NewTaskID(), State: api.TaskPending, Create: req,
		Account: account, Key: key, Owner: e.cfg.Owner, CreatedAt: e.cfg.Now().UTC(),
		EnvNames: slices.Sorted(maps.Keys(req.Sandbox.Env)), Env: req.Sandbox.Env,
	}
	t.Create.Sandbox.Env = nil
	var ms models
	if req.Request != "" {
		find := e.models
		if req.Repo != nil {
			find = lineup{e.cfg.Model}.agent
		}
		if ms, err = find(req); err != nil {
			return api.Task{}, err
		}
		t.Model, t.Models = ms.name(), ms.names()
		if err := e.record(req, &ms); err != nil {
			return api.Task{}, err
		}
	}
	discard := func() {
		if ms.recording != nil {
			if err := ms.recording.Discard(); err != nil {
				e.cfg.Logger.Error("discard recording", "task", t.ID, "err", err)
			}
		}
	}
	if err := e.start(ctx, t, ms, source{program: program}); err != nil {
		discard()
		return api.Task{}, err
	}
	return t, nil
}

// source is what a task starts from besides its request: a program that exists, or the
// tasks that it continues, the oldest first, or the session that it is a turn of.
type source struct {
	program *api.CodeArtifact
	earlier []api.Task
	turn    *repo.Turn
}

// start stores a task and runs it in a goroutine of its own.
func (e *Engine) start(ctx context.Context, t api.Task, ms models, from source) error {
	given := t.Create.Files
	var err error
	if t.Create.Files, err = e.keepInputs(t.ID, given); err != nil {
		return err
	}
	// The task's life is not its creator's: a client may go and come back.
	life, cancel := context.WithCancel(api.WithTask(context.WithoutCancel(ctx), t.ID))
	r := &running{cancel: cancel, done: make(chan struct{}), log: e.emitter(t.ID)}
	if err := e.enter(t.ID, r); err != nil {
		cancel()
		return err
	}
	if r.run, err = survivalOf(e).journal(ctx, t, from.turn); err != nil {
		cancel()
		e.leave(t.ID, r)
		return err
	}
	// A caller who goes away must not leave it in doubt whether the row is there.
	if err := e.cfg.Store.InsertTask(context.WithoutCancel(ctx), t); err != nil {
		cancel()
		survivalOf(e).discardRun(ctx, r.run)
		e.leave(t.ID, r)
		return err
	}
	r.log.Emit(life, api.EventTaskCreated, t)
	go func() {
		defer e.leave(t.ID, r)
		defer cancel()
		e.run(life, t, ms, from, r)
	}()
	return nil
}

func (e *Engine) enter(id api.TaskID, r *running) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return api.Errorf(api.KindUnavailable, "the task engine is closed").WithHint("Run the command again; a new daemon starts automatically.")
	}
	e.live[id] = r
	e.wg.Add(1)
	return nil
}

func (e *Engine) leave(id api.TaskID, r *running) {
	e.mu.Lock()
	delete(e.live, id)
	e.mu.Unlock()
	close(r.done)
	e.wg.Done()
}

// Running counts the tasks that are not done, and the deliveries of those that are.
func (e *Engine) Running() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.live) + len(e.deliveries)
}

// Wait returns the task when it is done. For a task of another owner it returns
// what is stored.
func (e *Engine) Wait(ctx context.Context, id api.TaskID) (api.Task, error) {
	if r := e.find(id); r != nil {
		select {
		case <-r.done:
		case <-ctx.Done():
			return api.Task{}, ctx.Err()
		}
	}
	return e.cfg.Store.Task(ctx, id)
}

func (e *Engine) find(id api.TaskID) *running {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.live[id]
}

// Cancel stops a task and returns it when it is done, with the receipt of what
// it had finished. It is idempotent: a task that is done stays as it is.
// KindConflict for a task that runs under another owner.
func (e *Engine) Cancel(ctx context.Context, id api.TaskID) (api.Task, error) {
	r := e.find(id)
	if r == nil {
		t, err := e.cfg.Store.Task(ctx, id)
		if err == nil && t.State != api.TaskDone {
			err = api.Errorf(api.KindConflict, "task %s runs under another owner (%s)", id, t.Owner)
		}
		return t, err
	}
	r.stop(e)
	return e.Wait(ctx, id)
}

func (r *running) stop(e *Engine) {
	r.once.Do(func() {
		survivalOf(e).stoppedBefore(context.Background(), r.run)
		r.log.Emit(context.Background(), api.EventTaskCancel, struct{}{})
		r.cancel()
	})
}

// Close refuses new tasks, cancels all, deliveries too, and waits until they are done.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	e.closed = true
	var all []*running
	for _, r := range e.live {
		all = append(all, r)
	}
	for _, cancel := range e.deliveries {
		cancel()
	}
	e.mu.Unlock()
	for _, r := range all {
		r.stop(e)
	}
	done := make(chan struct{})
	go func() {
		e.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return api.Errorf(api.KindTimeout, "timeout: %d tasks did not end", e.Running())
	}
}
