package task

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"hortus.dev/api"
)

// emitter appends the facts of one task. After task.finished it takes nothing.
type emitter struct {
	log    Log
	stream api.Stream
	slog   *slog.Logger

	room func(ctx context.Context, need int64) error
	// gone reports whether another owner continues the task: nothing is appended any more. It may be nil.
	gone func() bool

	mu    sync.Mutex
	ended bool
	full  bool // the rest of the output is discarded
	calls []api.RoleCalls
	// taught are the lessons that the task was given, and taughtBy counts them by how they were found.
	taught   []string
	taughtBy map[string]int
}

func (e *Engine) emitter(t api.Task) *emitter {
	return &emitter{
		log: e.cfg.Log, stream: api.Stream{Kind: api.StreamTask, ID: string(t.ID)}, slog: e.cfg.Logger,
		room: func(ctx context.Context, need int64) error { return e.room(ctx, t, need) },
	}
}

// Emit appends one fact, also after ctx ended: what happened did happen. It waits for a database that cannot be reached as
// [store.Waiting] says, and the facts that follow wait behind it. Another log that cannot be written is reported and does not stop the task.
func (m *emitter) Emit(ctx context.Context, t api.EventType, data any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ended && (m.gone == nil || !m.gone()) {
		switch ev := data.(type) {
		case api.ModelEvent:
			m.count(ev)
		case api.LessonsEvent:
			m.given(ev)
		case api.OutputEvent:
			if m.full {
				return
			}
			if err := m.room(ctx, int64(len(ev.Data))); err != nil {
				m.full = true
				ev.Data = []byte(discarded(err))
				data = ev
			}
		}
		m.append(ctx, t, data)
	}
}

// count sums the calls by role and model.
func (m *emitter) count(ev api.ModelEvent) {
	i := slices.IndexFunc(m.calls, func(c api.RoleCalls) bool { return c.Role == ev.Role && c.Model == ev.Model })
	if i < 0 {
		i = len(m.calls)
		m.calls = append(m.calls, api.RoleCalls{Role: ev.Role, Model: ev.Model})
	}
	c := &m.calls[i]
	c.Calls++
	c.MS += ev.MS
	c.Usage = c.Usage.Add(ev.Usage)
	if ev.Error != "" {
		c.Errors++
	}
}

// given notes lessons, each once.
func (m *emitter) given(o api.LessonsEvent) {
	for _, l := range o.Lessons {
		if !slices.Contains(m.taught, l.ID) {
			m.taught = append(m.taught, l.ID)
			if l.By == "" {
				continue // an event of an older version
			}
			if m.taughtBy == nil {
				m.taughtBy = map[string]int{}
			}
			m.taughtBy[string(l.By)]++
		}
	}
}

// lessons lists the lessons that the task was given so far, and counts them by how they were found.
func (m *emitter) lessons() ([]string, map[string]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.taught), maps.Clone(m.taughtBy)
}

// roleCalls returns the sums so far.
func (m *emitter) roleCalls() []api.RoleCalls {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.calls)
}

func (m *emitter) finish(ctx context.Context, t api.Task) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ended {
		m.ended = true
		m.append(ctx, api.EventTaskFinished, t)
	}
}

// left appends the last event of this owner.
func (m *emitter) left(ctx context.Context, ev api.LeftEvent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	m.append(ctx, api.EventTaskLeft, ev)
}

// finishWith calls end, which stores the last event, unless that was done before.
func (m *emitter) finishWith(end func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return nil
	}
	m.ended = true
	return end()
}

func (m *emitter) append(ctx context.Context, t api.EventType, data any) {
	if _, err := m.log.Append(context.WithoutCancel(ctx), m.stream, t, data); err != nil {
		m.slog.Error("append event", "task", m.stream.ID, "type", string(t), "err", err)
	}
}
