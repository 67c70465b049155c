package client

import (
	"context"
	"io"
	"iter"
	"net/http"
	"strconv"

	"hortus.dev/api"
)

// CreateRun asks for a verified program, in a sentence. The run goes on in the daemon.
func (c *Client) CreateRun(ctx context.Context, req api.CreateRun) (api.Task, error) {
	var out api.Task
	return out, c.call(ctx, http.MethodPost, "/v1/runs", req, &out)
}

// Run gives a run with its attempts.
func (c *Client) Run(ctx context.Context, id api.TaskID) (api.Task, error) {
	var out api.Task
	seg, err := segment(string(id))
	if err != nil {
		return out, err
	}
	return out, c.call(ctx, http.MethodGet, "/v1/runs/"+seg, nil, &out)
}

// Runs lists the newest runs; limit 0 leaves the number to the daemon.
func (c *Client) Runs(ctx context.Context, limit int) ([]api.Task, error) {
	return first[api.Task](ctx, c, "/v1/runs", limit)
}

// CancelRun stops a run and returns it when it is done, with its receipt.
func (c *Client) CancelRun(ctx context.Context, id api.TaskID) (api.Task, error) {
	var out api.Task
	return out, c.call(ctx, http.MethodPost, "/v1/runs/"+string(id)+"/cancel", nil, &out)
}

// RunEvents yields a run's events after a sequence number, as TaskEvents does: those
// that are stored and those that come, without a gap or a repeat, up to the verdict.
func (c *Client) RunEvents(ctx context.Context, id api.TaskID, after int64) iter.Seq2[api.Event, error] {
	return c.events(ctx, "/v1/runs/"+string(id)+"/events", after, func(e api.Event) bool { return e.Type == api.EventTaskFinished })
}

// RunOutput opens the whole output of an attempt; stream is "stdout" or "stderr".
// Close the reader.
func (c *Client) RunOutput(ctx context.Context, id api.TaskID, attempt int, stream string) (io.ReadCloser, error) {
	if stream != "stdout" && stream != "stderr" {
		return nil, api.Errorf(api.KindInvalid, "%q is no stream: stdout or stderr", stream)
	}
	resp, err := c.request(ctx, http.MethodGet, "/v1/runs/"+string(id)+"/attempts/"+strconv.Itoa(attempt)+"/"+stream, nil, nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// idempotencyKey is the context's key for the calls that make something.
type idempotencyKey struct{}

// WithIdempotencyKey has calls that make something make it once: the same call with
// the same key gives the same answer, as long as the daemon keeps it (a day). A
// context is for one call and its repetitions.
func WithIdempotencyKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, idempotencyKey{}, key)
}
