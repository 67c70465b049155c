package task

import (
	"context"
	"log/slog"
	"sync"

	"hortus.dev/api"
)

// emitter appends the facts of one task. After task.finished it takes nothing.
type emitter struct {
	log    Log
	stream api.Stream
	slog   *slog.Logger

	mu    sync.Mutex
	ended bool
}

func (e *Engine) emitter(id api.TaskID) *emitter {
	return &emitter{log: e.cfg.Log, stream: api.Stream{Kind: api.StreamTask, ID: string(id)}, slog: e.cfg.Logger}
}

// Emit appends one fact, also after ctx ended: what happened did happen. A log
// that cannot be written is reported and does not stop the task.
func (m *emitter) Emit(ctx context.Context, t api.EventType, data any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ended {
		m.append(ctx, t, data)
	}
}

func (m *emitter) finish(ctx context.Context, t api.Task) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ended {
		m.ended = true
		m.append(ctx, api.EventTaskFinished, t)
	}
}

func (m *emitter) append(ctx context.Context, t api.EventType, data any) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if _, err := m.log.Append(ctx, m.stream, t, data); err != nil {
		m.slog.Error("append event", "task", m.stream.ID, "type", string(t), "err", err)
	}
}
