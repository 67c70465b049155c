package task_test

import (
	"context"
	"slices"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/task"
)

// awayLog is a log whose database cannot be reached when tasks have started, until back is closed. Facts wait as the store waits in a long outage.
type awayLog struct {
	*memory
	waits chan api.TaskID // has each task whose fact begins to wait
	back  chan struct{}
}

func (l *awayLog) Append(ctx context.Context, s api.Stream, t api.EventType, data any) (api.Event, error) {
	if t != api.EventTaskCreated && t != api.EventTaskStarted {
		select {
		case l.waits <- api.TaskID(s.ID):
		default:
		}
		until := store.WaitsUntil(ctx)
		if until == nil {
			gone, cancel := context.WithCancel(ctx)
			cancel()
			until = gone
		}
		select {
		case <-l.back:
		case <-until.Done():
			return api.Event{}, api.Errorf(api.KindUnavailable, "the database cannot be reached")
		}
	}
	return l.memory.Append(ctx, s, t, data)
}

// TestFactsWaitForTheDatabase: a task whose database cannot be reached for long waits with its next fact, so that none is lost; a cancellation ends the wait.
func TestFactsWaitForTheDatabase(t *testing.T) {
	kinds := func(mem *memory, id api.TaskID) (all []api.EventType) {
		for _, e := range mem.of(id) {
			all = append(all, e.Type)
		}
		return slices.Compact(all) // the output of a program is in one piece or in several
	}
	req := api.CreateTask{Artifact: script("print('x')")}
	plain, mem, _ := newEngine(t)
	want := kinds(mem, done(t, plain, req).ID)

	var log *awayLog
	e, mem, _ := newEngine(t, func(cfg *task.Config) {
		log = &awayLog{memory: cfg.Log.(*memory), waits: make(chan api.TaskID, 2), back: make(chan struct{})}
		cfg.Log = log
	})
	create := func() api.TaskID {
		t.Helper()
		made, err := e.Create(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if id := <-log.waits; id != made.ID {
			t.Errorf("task %s waits, not %s", id, made.ID)
		}
		return made.ID
	}
	waits := create()
	if got, err := e.Cancel(t.Context(), create()); err != nil || got.Outcome != api.OutcomeCanceled {
		t.Errorf("%s, %v", got.Outcome, err)
	}
	close(log.back)
	if got, err := e.Wait(t.Context(), waits); err != nil || got.Outcome != api.OutcomeVerified {
		t.Errorf("%s, %v", got.Outcome, err)
	}
	if got := kinds(mem, waits); !slices.Equal(got, want) {
		t.Errorf("the events are %v, want %v", got, want)
	}
}
