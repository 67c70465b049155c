package task

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/store"
	"hortus.dev/internal/task/journal"
	"hortus.dev/internal/task/repo"
	"hortus.dev/internal/task/workstream"
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

// Elsewhere are the other nodes of a fleet.
type Elsewhere interface {
	// Leaves returns nil if a task is to continue on another node, or else why it is not. It is asked where the task can stop: before a step of its roles, or when
	// the files of a round are stored. The item of a plan leaves with its plan.
	Leaves(ctx context.Context, t api.Task) error
	// HandOver gives a task that has stopped here, with its workspace, to another node, or to this one if no other takes it: that finds it
	// as the work of an owner that has ended.
	HandOver(ctx context.Context, t api.Task) error
	// Moved says from which node work of an owner that has ended came here, and why; nil for that of an earlier run of this node.
	Moved(ctx context.Context, from api.OwnerID) *api.TaskMove
}

// Log takes facts.
type Log interface {
	Append(ctx context.Context, s api.Stream, t api.EventType, data any) (api.Event, error)
}

// Documents reads stored documents by their names: each from the first of the repositories that has it, or else from the account.
type Documents interface {
	Read(ctx context.Context, account string, repositories, names []string) ([]api.Document, error)
}

// Config is what an engine is made of. All fields but Record, Tools, Advise,
// Check, Repositories, Documents, StepTime, Now and Logger must be set.
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
	// Advise says, for the diagnosis of a task that was not verified, how its sandboxes get what they lack.
	// It may be nil, and may have nothing to say.
	Advise func(context.Context, api.Task) string
	// Check is what the sandboxes would refuse, before a model is asked. It
	// may be nil.
	Check func(context.Context, api.CreateSandbox) error
	// Repositories runs the tasks that are about a repository; nil refuses them.
	Repositories Repositories
	// OffLimits are the globs of files that are off limits in every repository, before
	// those of a request. See api.FilePolicy.
	OffLimits []string
	// Journal keeps the steps of tasks on repositories, so that they continue after the death of their daemon. It may be
	// nil: then they are lost with it. Events reads the events of a task, and Appended learns of the last one, which
	// is stored with the end of a journal; both are used only with a journal.
	Journal  *journal.Journal
	Events   func(ctx context.Context, s api.Stream, after int64, limit int) ([]api.Event, error)
	Appended func(api.Event)
	// Bring gets the files of a task here whose owner has ended, before it continues, if they are on another node; after an error the task is lost.
	// It may be nil.
	Bring func(context.Context, Brought) error
	// Elsewhere has tasks continue on other nodes; nil if there are none.
	Elsewhere Elsewhere
	// Lessons are what earlier tasks taught; nil for none.
	Lessons Lessons
	// Documents are the stored documents of accounts; nil refuses requests that name one.
	Documents Documents
	// Workstreams knows who changes which files; nil has nobody wait. Claims are those of the tasks of this engine's rows in it.
	Workstreams *workstream.Registry
	Claims      Claims
	// Gate returns the gate command that is saved for a repository of an account; empty for none. nil has none saved.
	Gate func(ctx context.Context, account, url string) (string, error)
	// Isolation returns the connected repository whose default isolation holds for an account and an address; an empty one for none.
	// nil has none.
	Isolation func(ctx context.Context, account, url string) (api.Repository, error)
	// Room refuses bytes that the disk has no space for, or that an account may not store. It may be
	// nil. Output of programs beyond it is discarded.
	Room func(ctx context.Context, account, what string, need int64) error
	// Dir holds one folder for each task, with the whole output of its attempts.
	Dir   string
	Owner api.OwnerID
	// StepTime is how long Close waits for steps of tasks to end; 0 is 20 seconds.
	StepTime time.Duration
	Now      func() time.Time
	Logger   *slog.Logger
}

// stepTime is shorter than the time in which a daemon has to end its tasks: sandboxes end after it.
const stepTime = 20 * time.Second

// Engine runs tasks. Its methods may be called from several goroutines.
type Engine struct {
	cfg      Config
	active   registry
	folders  folders
	lineup   lineup
	journals journals
	taken    handover
}

// New makes an engine. [Engine.Close] ends it.
func New(cfg Config) *Engine {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	cfg.StepTime = cmp.Or(cfg.StepTime, stepTime)
	return &Engine{
		cfg: cfg, folders: folders{cfg.Dir}, lineup: lineup{cfg.Model},
		journals: journals{cfg.Journal, cfg.Appended, cfg.Now, cfg.Logger},
		active:   registry{tasks: map[api.TaskID]*activeTask{}, deliveries: map[api.TaskID]context.CancelFunc{}},
	}
}

// Create checks a request, stores it and starts it. The task runs on after ctx
// ended. Errors: KindInvalid for a request that makes no sense, KindNotFound for
// a replay of what is not there, KindUnavailable after Close.
func (e *Engine) Create(ctx context.Context, req api.CreateTask) (api.Task, error) {
	return e.CreateAs(ctx, api.NewTaskID(), req)
}

// CreateAs is Create for a task with an ID of the caller's, who knows it before the task is there.
func (e *Engine) CreateAs(ctx context.Context, id api.TaskID, req api.CreateTask) (api.Task, error) {
	if req.Repo != nil && req.Repo.Item != nil {
		return api.Task{}, api.Errorf(api.KindInvalid, "repo.item is set by plans; it cannot be requested")
	}
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
		ID: id, State: api.TaskPending, Create: req,
		Account: account, Key: key, Owner: e.cfg.Owner, CreatedAt: e.cfg.Now().UTC(),
		EnvNames: slices.Sorted(maps.Keys(req.Sandbox.Env)), Env: req.Sandbox.Env,
	}
	t.Create.Sandbox.Env = nil
	var ms models
	if req.Request != "" {
		if ms, err = e.lineup.of(req); err != nil {
			return api.Task{}, err
		}
		t.Model, t.Models = ms.name(), ms.names()
		if err := e.record(req, &ms); err != nil {
			return api.Task{}, err
		}
	}
	if err := e.start(ctx, t, ms, source{program: program}); err != nil {
		if ms.recording != nil {
			if derr := ms.recording.Discard(); derr != nil {
				e.cfg.Logger.Error("discard recording", "task", t.ID, "err", derr)
			}
		}
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
	need := int64(0)
	for _, f := range t.Create.Files {
		need += int64(len(f.Content))
	}
	err := e.room(ctx, t, need)
	if err != nil {
		return err
	}
	if t.Create.Files, err = e.folders.keepInputs(t.ID, t.Create.Files); err != nil {
		return err
	}
	run, err := e.journals.begin(ctx, t, from.turn)
	if err != nil {
		return err
	}
	// The task's life is not its creator's: a client may go and come back.
	life, cancel, hurry := e.lifeOf(context.WithoutCancel(ctx), t.ID)
	r := newActiveTask(t, cancel, hurry, e.emitter(t), run)
	if err := e.active.enter(t.ID, r); err != nil {
		cancel()
		e.journals.discard(ctx, run)
		return err
	}
	// A caller who goes away must not leave it in doubt whether the row is there.
	if err := e.cfg.Store.InsertTask(context.WithoutCancel(ctx), t); err != nil {
		cancel()
		e.journals.discard(ctx, run)
		e.active.leave(t.ID, r)
		return err
	}
	r.log.Emit(life, api.EventTaskCreated, t)
	go func() {
		defer e.leave(t, r)
		defer cancel()
		e.brought(life, t, ms, from, r)
	}()
	return nil
}

// lifeOf returns the context of a task. What the task does was done: it waits for a database that cannot be reached until that is stored, after hurry
// for a short outage only. If another node continues the task meanwhile, that is not stored.
func (e *Engine) lifeOf(ctx context.Context, id api.TaskID) (life context.Context, cancel, hurry context.CancelFunc) {
	long, hurry := context.WithCancel(context.Background())
	life, end := context.WithCancel(store.Writing(store.Waiting(api.WithTask(ctx, id), long), e.cfg.Owner))
	return life, func() { end(); hurry() }, hurry
}

// leave is the end of a task. Others may have waited for it.
func (e *Engine) leave(t api.Task, r *activeTask) {
	e.active.leave(t.ID, r)
	if t.Create.Repo != nil && e.cfg.Workstreams != nil {
		e.cfg.Workstreams.Released()
	}
}

// room refuses bytes that a task may not store.
func (e *Engine) room(ctx context.Context, t api.Task, need int64) error {
	if e.cfg.Room == nil {
		return nil
	}
	return e.cfg.Room(ctx, t.Account, "task "+string(t.ID), need)
}

// Running counts the tasks that are not done, and the deliveries of those that are.
func (e *Engine) Running() int { return e.active.count() }

// Ending counts the tasks that are not done and end with their daemon, and the deliveries.
func (e *Engine) Ending() int {
	n := e.active.count()
	for _, r := range e.active.list() {
		if r.run.Records() {
			n--
		}
	}
	return max(n, 0)
}

// Wait returns the task when it is done. For a task of another owner, or one that was left to another one, it returns
// what is stored.
func (e *Engine) Wait(ctx context.Context, id api.TaskID) (api.Task, error) {
	if r := e.active.find(id); r != nil {
		select {
		case <-r.done:
		case <-ctx.Done():
			return api.Task{}, ctx.Err()
		}
	}
	return e.cfg.Store.Task(ctx, id)
}

// Cancel stops a task and returns it when it is done, with the receipt of what
// it had finished. It is idempotent: a task that is done stays as it is.
// KindConflict for a task that runs under another owner, KindUnavailable for one that is on its way to another node.
func (e *Engine) Cancel(ctx context.Context, id api.TaskID) (api.Task, error) {
	if r := e.active.find(id); r != nil {
		e.stop(r)
	}
	t, err := e.Wait(ctx, id)
	switch {
	case err != nil || t.State == api.TaskDone:
		return t, err
	case e.cfg.Elsewhere != nil:
		err := api.Errorf(api.KindUnavailable, "task %s is on its way to another node", id).WithHint("try again in a few seconds")
		err.RetryAfterMS = onItsWay.Milliseconds()
		return t, err
	}
	return t, api.Errorf(api.KindConflict, "task %s runs under another owner (%s)", id, t.Owner)
}

// onItsWay is how long it takes until another node has what was handed over to it.
const onItsWay = 2 * time.Second

// stop begins the cancellation of a task, once. One that has left here is canceled by who continues it.
func (e *Engine) stop(r *activeTask) {
	if !r.run.Stay() {
		return
	}
	r.once.Do(func() {
		r.canceled.Store(true)
		r.hurry()
		e.journals.cancel(context.Background(), r.run)
		r.log.Emit(context.Background(), api.EventTaskCancel, struct{}{})
		r.cancel()
	})
}

// Close refuses new tasks. Those that survive their daemon are left to the next one: before their next step, or in the middle of one that does not end within
// [Config.StepTime]. Others are canceled, deliveries too. It waits until all of that is done.
func (e *Engine) Close(ctx context.Context) error {
	var resting []*activeTask
	for _, r := range e.active.close() {
		if !e.rest(r) {
			e.stop(r)
			continue
		}
		resting = append(resting, r)
	}
	if len(resting) > 0 {
		e.cfg.Logger.Info("tasks are left to the next daemon when their steps have ended", "tasks", len(resting), "atMost", e.cfg.StepTime)
	}
	stepping, cancel := context.WithTimeout(ctx, e.cfg.StepTime)
	defer cancel()
	for _, r := range resting {
		select {
		case <-r.done:
		case <-stepping.Done():
			if r.canceled.Load() {
				continue
			}
			r.cut.Store(true)
			_ = r.run.Leave() // the task ends with it
			r.cancel()
			e.cfg.Logger.Warn("a step of a task is interrupted: it did not end while the daemon stops", "task", r.task.ID)
		}
	}
	return e.active.wait(ctx)
}

// rest has a task stop before its next step. It returns false for a task that does not survive its daemon, or that is being canceled.
func (e *Engine) rest(r *activeTask) bool {
	if !r.run.Records() || r.canceled.Load() {
		return false
	}
	r.resting.Store(true)
	r.hurry()
	r.run.Rest(r.cancel)
	return true
}

// Turn requests a task that is a turn of a session.
type Turn struct {
	// ID is that of the task: who starts a turn knows it before the task is there.
	ID     api.TaskID
	Create api.CreateTask
	repo.Turn
}

// CheckTurn refuses what StartTurn would refuse, and returns the request with its defaults.
func (e *Engine) CheckTurn(ctx context.Context, create api.CreateTask) (api.CreateTask, error) {
	account, key := create.Sandbox.Account, create.Sandbox.Key
	create, err := e.check(ctx, create)
	create.Sandbox.Account, create.Sandbox.Key = account, key
	switch {
	case err != nil:
		return create, err
	case create.Repo == nil || create.Repo.NoAgent() || create.Record != "" || create.Repo.Workspace != "":
		return create, api.Errorf(api.KindInvalid, "a turn of a session is a task on a repository, without a recording and a workspace of its own")
	}
	if _, err := e.lineup.agent(create); err != nil {
		return create, err
	}
	if e.cfg.Check != nil {
		err = checkSandbox(ctx, e.cfg.Check, create)
	}
	return create, err
}

// StartTurn starts the turn of a session. If its task is there already, that is returned.
func (e *Engine) StartTurn(ctx context.Context, turn Turn) (api.Task, error) {
	if t, err := e.cfg.Store.Task(ctx, turn.ID); api.KindOf(err) != api.KindNotFound {
		return t, err
	}
	create, err := e.CheckTurn(ctx, turn.Create)
	if err != nil {
		return api.Task{}, err
	}
	return e.startPart(ctx, api.Task{ID: turn.ID, Create: create, Session: turn.Session}, source{turn: &turn.Turn})
}

// startPart starts a task on a repository that is a part of something, whose request was checked.
func (e *Engine) startPart(ctx context.Context, t api.Task, from source) (api.Task, error) {
	ms, err := e.lineup.agent(t.Create)
	if err != nil {
		return api.Task{}, err
	}
	t.State, t.Owner, t.CreatedAt = api.TaskPending, e.cfg.Owner, e.cfg.Now().UTC()
	t.Account, t.Key = t.Create.Sandbox.Account, t.Create.Sandbox.Key
	t.EnvNames, t.Env = slices.Sorted(maps.Keys(t.Create.Sandbox.Env)), t.Create.Sandbox.Env
	t.Create.Sandbox.Env = nil
	t.Model, t.Models = ms.name(), ms.names()
	return t, e.start(ctx, t, ms, from)
}

// CheckItem refuses a request from which the tasks of a plan's items cannot be made, and returns it with its defaults.
func (e *Engine) CheckItem(ctx context.Context, create api.CreateTask) (api.CreateTask, error) {
	account, key := create.Sandbox.Account, create.Sandbox.Key
	create, err := e.check(ctx, create)
	create.Sandbox.Account, create.Sandbox.Key = account, key
	if err == nil {
		_, err = e.lineup.agent(create)
	}
	if err == nil && e.cfg.Check != nil {
		err = checkSandbox(ctx, e.cfg.Check, create)
	}
	return create, err
}

// StartItem starts a task of a plan, whose repo.item is set. If the task is there already, that is returned.
func (e *Engine) StartItem(ctx context.Context, id api.TaskID, create api.CreateTask) (api.Task, error) {
	if t, err := e.cfg.Store.Task(ctx, id); api.KindOf(err) != api.KindNotFound {
		return t, err
	}
	create, err := e.CheckItem(ctx, create)
	if err != nil {
		return api.Task{}, err
	}
	return e.startPart(ctx, api.Task{ID: id, Create: create}, source{})
}
