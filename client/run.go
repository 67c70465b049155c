package client

import (
	"context"
	"io"
	"iter"
	"net/http"

	"hortus.dev/api"
)

// RunService starts and follows runs: verified programs from a sentence, with a smaller API than tasks.
type RunService struct{ service }

// Create requests a verified program, in a sentence. The run continues in the daemon.
func (s *RunService) Create(ctx context.Context, req api.CreateRun) (api.Task, error) {
	var out api.Task
	return out, s.client.call(ctx, http.MethodPost, "/v1/runs", req, &out)
}

// Get returns a run with its attempts.
func (s *RunService) Get(ctx context.Context, id api.TaskID) (api.Task, error) {
	var out api.Task
	seg, err := segment(string(id))
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodGet, "/v1/runs/"+seg, nil, &out)
}

// List lists the newest runs; limit 0 leaves the number to the daemon.
func (s *RunService) List(ctx context.Context, limit int) ([]api.Task, error) {
	return s.Match(ctx, TaskFilter{Limit: limit})
}

// Match lists the runs that match a filter, the newest first.
func (s *RunService) Match(ctx context.Context, f TaskFilter) ([]api.Task, error) {
	return first[api.Task](ctx, s.client, "/v1/runs", f.query(), f.Limit)
}

// Cancel stops a run and returns it when it is done, with its receipt.
func (s *RunService) Cancel(ctx context.Context, id api.TaskID) (api.Task, error) {
	var out api.Task
	return out, s.client.call(ctx, http.MethodPost, "/v1/runs/"+string(id)+"/cancel", nil, &out)
}

// Events yields a run's events after a sequence number, as TaskService.Events does: those
// that are stored and those that come, without a gap or a repeat, up to the verdict.
func (s *RunService) Events(ctx context.Context, id api.TaskID, after int64) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		for e, err := range s.client.events(ctx, "/v1/runs/"+string(id)+"/events", after, func(e api.Event) bool { return e.Type == api.RunVerdict }) {
			if err == nil {
				e.Type = api.TaskEventType(e.Type)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// Output opens the whole output of an attempt; stream is "stdout" or "stderr".
// Close the reader.
func (s *RunService) Output(ctx context.Context, id api.TaskID, attempt int, stream string) (io.ReadCloser, error) {
	return s.client.output(ctx, "/v1/runs/"+string(id), attempt, stream)
}

// idempotencyKey is the context's key for the calls that make something.
type idempotencyKey struct{}

// WithIdempotencyKey has calls that make something make it once: the same call with
// the same key gives the same answer, as long as the daemon keeps it (a day). A
// context is for one call and its repetitions.
func WithIdempotencyKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, idempotencyKey{}, key)
}
