package task

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"hortus.dev/api"
	"hortus.dev/internal/task/journal"
)

// registry has the tasks that are not done, and the deliveries of those that are, until it is closed.
type registry struct {
	wg sync.WaitGroup

	mu     sync.Mutex
	closed bool
	tasks  map[api.TaskID]*activeTask
	// deliveries are ended by their functions.
	deliveries map[api.TaskID]context.CancelFunc
}

// activeTask is a task that is not done.
type activeTask struct {
	task   api.Task // as it began here
	cancel context.CancelFunc
	// hurry has what the task stores wait for a short outage of the database only.
	hurry context.CancelFunc
	done  chan struct{}
	// once makes the begin of a cancellation a single fact.
	once sync.Once
	// canceled is true once it began, resting if the daemon stops, and cut if that interrupted a step.
	canceled, resting, cut atomic.Bool
	log                    *emitter
	// run is its journal, which records nothing if the task ends with its daemon.
	run *journal.Run
}

func newActiveTask(t api.Task, cancel, hurry context.CancelFunc, log *emitter, run *journal.Run) *activeTask {
	log.gone = run.Left
	return &activeTask{task: t, cancel: cancel, hurry: hurry, done: make(chan struct{}), log: log, run: run}
}

func errClosed() error {
	return api.Errorf(api.KindUnavailable, "the task engine is closed").WithHint("Run the command again; a new daemon starts automatically.")
}

// enter adds a task, which leave removes when it is done.
func (g *registry) enter(id api.TaskID, r *activeTask) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return errClosed()
	}
	g.tasks[id] = r
	g.wg.Add(1)
	return nil
}

func (g *registry) leave(id api.TaskID, r *activeTask) {
	g.mu.Lock()
	if g.tasks[id] == r { // it may have come back meanwhile
		delete(g.tasks, id)
	}
	g.mu.Unlock()
	close(r.done)
	g.wg.Done()
}

// find returns a task that is not done; nil if there is none.
func (g *registry) find(id api.TaskID) *activeTask {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tasks[id]
}

// list returns the tasks that are not done.
func (g *registry) list() []*activeTask {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Values(g.tasks))
}

// count counts the tasks and the deliveries.
func (g *registry) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.tasks) + len(g.deliveries)
}

// deliver makes a delivery the only one of its task, until done is called.
func (g *registry) deliver(ctx context.Context, id api.TaskID) (_ context.Context, done func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return ctx, nil, errClosed()
	}
	if g.deliveries[id] != nil {
		return ctx, nil, api.Errorf(api.KindConflict, "task %s is already being delivered", id).WithHint("To see its result: hortus task show %s.", id)
	}
	ctx, cancel := context.WithCancel(api.WithTask(ctx, id))
	g.deliveries[id] = cancel
	g.wg.Add(1)
	return ctx, func() {
		cancel()
		g.mu.Lock()
		delete(g.deliveries, id)
		g.mu.Unlock()
		g.wg.Done()
	}, nil
}

// close refuses new tasks and deliveries, cancels the deliveries and returns the tasks.
func (g *registry) close() (all []*activeTask) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, r := range g.tasks {
		all = append(all, r)
	}
	for _, cancel := range g.deliveries {
		cancel()
	}
	return all
}

// wait waits until nothing is left.
func (g *registry) wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		g.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return api.Errorf(api.KindTimeout, "timeout: %d tasks did not end", g.count())
	}
}
