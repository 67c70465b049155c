package task_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/offline"
	"hortus.dev/internal/agent/model/replay"
	"hortus.dev/internal/task"
	"hortus.dev/test/agenttest"
	"hortus.dev/test/patience"
)

// memory is a store and an event log in memory.
type memory struct {
	mu     sync.Mutex
	tasks  map[api.TaskID]api.Task
	events map[string][]api.Event
	grew   chan struct{}
}

func newMemory() *memory {
	return &memory{tasks: map[api.TaskID]api.Task{}, events: map[string][]api.Event{}, grew: make(chan struct{})}
}

func (m *memory) InsertTask(_ context.Context, t api.Task) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.tasks[t.ID]; ok {
		return api.Errorf(api.KindExists, "task %s", t.ID)
	}
	m.tasks[t.ID] = t
	return nil
}

func (m *memory) UpdateTask(_ context.Context, t api.Task) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	t.Attempts = m.tasks[t.ID].Attempts
	m.tasks[t.ID] = t
	return nil
}

func (m *memory) PutAttempt(_ context.Context, id api.TaskID, a api.Attempt) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tasks[id]
	t.Attempts = slices.Clone(t.Attempts)
	if i := slices.IndexFunc(t.Attempts, func(b api.Attempt) bool { return b.N == a.N }); i >= 0 {
		t.Attempts[i] = a
	} else {
		t.Attempts = append(t.Attempts, a)
	}
	m.tasks[id] = t
	return nil
}

func (m *memory) Task(_ context.Context, id api.TaskID) (api.Task, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, ok := m.tasks[id]
	if !ok {
		return t, api.Errorf(api.KindNotFound, "no task %s", id)
	}
	return t, nil
}

func (m *memory) UnfinishedTasks(_ context.Context, not api.OwnerID) ([]api.Task, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []api.Task
	for _, t := range m.tasks {
		if t.State != api.TaskDone && t.Owner != not {
			out = append(out, t)
		}
	}
	return out, nil
}

func (m *memory) Append(_ context.Context, s api.Stream, t api.EventType, data any) (api.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := json.Marshal(data)
	if err != nil {
		return api.Event{}, err
	}
	e := api.Event{Stream: s, Seq: int64(len(m.events[s.ID]) + 1), Type: t, Data: b}
	m.events[s.ID] = append(m.events[s.ID], e)
	close(m.grew)
	m.grew = make(chan struct{})
	return e, nil
}

func (m *memory) of(id api.TaskID) []api.Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.events[string(id)])
}

// until waits for the n-th event of a task, or the end of the task.
func (m *memory) until(t *testing.T, id api.TaskID, n int) {
	t.Helper()
	deadline := time.After(patience.Of(60 * time.Second))
	for {
		m.mu.Lock()
		es, grew := m.events[string(id)], m.grew
		m.mu.Unlock()
		if len(es) >= n || len(es) > 0 && es[len(es)-1].Type == api.EventTaskFinished {
			return
		}
		select {
		case <-grew:
		case <-deadline:
			t.Fatal("no further event came")
		}
	}
}

// oneFinish checks that a stream has exactly one task.finished, as its last.
func (m *memory) oneFinish(t *testing.T, id api.TaskID) {
	t.Helper()
	es := m.of(id)
	n := 0
	for _, e := range es {
		if e.Type == api.EventTaskFinished {
			n++
		}
	}
	if n != 1 || es[len(es)-1].Type != api.EventTaskFinished {
		var kinds []api.EventType
		for _, e := range es {
			kinds = append(kinds, e.Type)
		}
		t.Errorf("%d task.finished events in %v", n, kinds)
	}
}

func newEngine(t *testing.T, change ...func(*task.Config)) (*task.Engine, *memory, *agenttest.Localdir) {
	t.Helper()
	off, err := offline.New()
	if err != nil {
		t.Fatal(err)
	}
	mem, sandboxes := newMemory(), agenttest.NewLocaldir(t)
	change = append([]func(*task.Config){func(cfg *task.Config) { cfg.Record = record }}, change...)
	return engineWith(t, mem, sandboxes, []model.Model{off}, change...), mem, sandboxes
}

// engineWith makes an engine on a memory that has some models, and whatever is
// recorded.
func engineWith(t *testing.T, mem *memory, sandboxes *agenttest.Localdir, models []model.Model, change ...func(*task.Config)) *task.Engine {
	t.Helper()
	cfg := task.Config{
		Store: mem, Log: mem, Sandboxes: sandboxes, Dir: t.TempDir(), Owner: api.NewOwnerID(),
		Model: func(name string) (model.Model, error) {
			for _, m := range models {
				if m.Name() == name {
					return m, nil
				}
			}
			if path, ok := strings.CutPrefix(name, replay.Prefix); ok {
				return player(path)
			}
			return nil, api.Errorf(api.KindInvalid, "no model %q", name)
		},
	}
	for _, c := range change {
		c(&cfg)
	}
	e := task.New(cfg)
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}
