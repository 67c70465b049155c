package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

// RoleService asks one role of the pipeline alone.
type RoleService struct{ service }

// Plan asks the Planner alone.
func (s *RoleService) Plan(ctx context.Context, model string, req api.PlanRequest) (api.ExecutionPlan, error) {
	var out api.ExecutionPlan
	return out, s.client.query(ctx, http.MethodPost, "/v1/roles/plan", modelQuery(model), req, &out)
}

// Code asks the Coder alone.
func (s *RoleService) Code(ctx context.Context, model string, plan api.ExecutionPlan) (api.CodeArtifact, error) {
	var out api.CodeArtifact
	return out, s.client.query(ctx, http.MethodPost, "/v1/roles/code", modelQuery(model), plan, &out)
}

// Debug asks the Debugger alone.
func (s *RoleService) Debug(ctx context.Context, model string, req api.DebugRequest) (api.Diagnosis, error) {
	var out api.Diagnosis
	return out, s.client.query(ctx, http.MethodPost, "/v1/roles/debug", modelQuery(model), req, &out)
}

func modelQuery(model string) url.Values {
	if model == "" {
		return nil
	}
	return url.Values{"model": {model}}
}

// TaskService starts and follows tasks: verified programs and work on repositories.
type TaskService struct{ service }

// Create requests a verified program. The task runs on in the daemon.
func (s *TaskService) Create(ctx context.Context, req api.CreateTask) (api.Task, error) {
	var out api.Task
	return out, s.client.call(ctx, http.MethodPost, "/v1/tasks", req, &out)
}

// Get returns a task with its attempts, by its identifier or a unique beginning
// of it, with or without the leading "t".
func (s *TaskService) Get(ctx context.Context, id string) (api.Task, error) {
	var out api.Task
	seg, err := segment(id)
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodGet, "/v1/tasks/"+seg, nil, &out)
}

// List lists the newest tasks; limit 0 leaves the number to the daemon.
func (s *TaskService) List(ctx context.Context, limit int) ([]api.Task, error) {
	return s.Match(ctx, TaskFilter{Limit: limit})
}

// TaskFilter says which tasks a list has: the newest Limit of those in one of the states and with one of the outcomes, where
// these are not empty. Limit 0 leaves the number to the daemon.
type TaskFilter struct {
	Limit    int
	States   []api.TaskState
	Outcomes []api.Outcome
}

func (f TaskFilter) query() url.Values {
	q := url.Values{}
	for _, state := range f.States {
		q.Add("state", string(state))
	}
	for _, outcome := range f.Outcomes {
		q.Add("outcome", string(outcome))
	}
	return q
}

// Match lists the tasks that match a filter, the newest first.
func (s *TaskService) Match(ctx context.Context, f TaskFilter) ([]api.Task, error) {
	return first[api.Task](ctx, s.client, "/v1/tasks", f.query(), f.Limit)
}

// Stats returns what the tasks since an instant came to; the zero time means all
// that are stored.
func (s *TaskService) Stats(ctx context.Context, since time.Time) (admin.TaskStats, error) {
	q := url.Values{}
	if !since.IsZero() {
		q.Set("since", since.UTC().Format(time.RFC3339Nano))
	}
	var out admin.TaskStats
	return out, s.client.query(ctx, http.MethodGet, "/v1/stats", q, nil, &out)
}

// Cancel stops a task and returns it when it is done, with its receipt.
func (s *TaskService) Cancel(ctx context.Context, id api.TaskID) (api.Task, error) {
	var out api.Task
	return out, s.client.call(ctx, http.MethodPost, "/v1/tasks/"+string(id)+"/cancel", nil, &out)
}

// Reply answers the question of a task that ended with needs_human, and returns the
// new task that continues its work. An error of KindConflict says that the task has no
// open question, or that it was continued already.
func (s *TaskService) Reply(ctx context.Context, id api.TaskID, req api.ReplyTask) (api.Task, error) {
	var out api.Task
	seg, err := segment(string(id))
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodPost, "/v1/tasks/"+seg+"/reply", req, &out)
}

// Output opens the whole output of an attempt; stream is "stdout" or
// "stderr". Close the reader.
func (s *TaskService) Output(ctx context.Context, id api.TaskID, attempt int, stream string) (io.ReadCloser, error) {
	return s.client.output(ctx, "/v1/tasks/"+string(id), attempt, stream)
}

// output opens the whole output of an attempt of a task or a run, whose path is given.
func (c *Client) output(ctx context.Context, path string, attempt int, stream string) (io.ReadCloser, error) {
	if stream != "stdout" && stream != "stderr" {
		return nil, api.Errorf(api.KindInvalid, "%q is not a stream: use stdout or stderr", stream)
	}
	resp, err := c.request(ctx, http.MethodGet, path+"/attempts/"+strconv.Itoa(attempt)+"/"+stream, nil, nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Events yields a task's events after a sequence number, those that are
// stored and then those that come, without a gap or a repeat. A connection that
// breaks is made again, for longer with [WithPatience]. It ends after the event task.finished, with the
// context's error, or when the daemon stays away.
func (s *TaskService) Events(ctx context.Context, id api.TaskID, after int64) iter.Seq2[api.Event, error] {
	return s.client.events(ctx, "/v1/tasks/"+string(id)+"/events", after, func(e api.Event) bool { return e.Type == api.EventTaskFinished })
}

// Events yields a sandbox's events in the same way, and ends when ctx does
// or the sandbox has.
func (s *Sandbox) Events(ctx context.Context, after int64) iter.Seq2[api.Event, error] {
	return s.client.events(ctx, s.path("/events"), after, func(e api.Event) bool {
		var state api.SandboxStateEvent
		return e.Type == api.EventSandboxState && json.Unmarshal(e.Data, &state) == nil && state.State.Final()
	})
}

// eventRetries is how often in a row a broken event stream is opened again.
const eventRetries = 5

func (c *Client) events(ctx context.Context, path string, after int64, last func(api.Event) bool) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		retries := eventRetries + int(patienceOf(ctx).For/time.Second) // they come to one a second
		for failed := 0; ; {
			seen := after
			done, err := c.follow(ctx, path, &after, func(e api.Event) bool { return yield(e, nil) && !last(e) })
			if done {
				return
			}
			if after > seen {
				failed = 0
			}
			failed++
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			// A daemon that answers with an error has made up its mind.
			var waited gaveUp
			if kind := api.KindOf(err); ctx.Err() != nil || failed > retries || errors.As(err, &waited) || (err != nil && kind != api.KindUnavailable) {
				if err == nil {
					err = api.Errorf(api.KindUnavailable, "the daemon closed the event stream of %s", path)
				}
				yield(api.Event{}, err)
				return
			}
			if err := sleep(ctx, min(time.Duration(failed)*50*time.Millisecond, time.Second)); err != nil {
				yield(api.Event{}, err)
				return
			}
		}
	}
}

// wholeLines is bufio.ScanLines without what a cut has left of a line.
func wholeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if atEOF && bytes.IndexByte(data, '\n') < 0 {
		return len(data), nil, nil
	}
	return bufio.ScanLines(data, atEOF)
}

// follow reads one event stream. done says that nothing more is wanted.
func (c *Client) follow(ctx context.Context, path string, after *int64, use func(api.Event) bool) (done bool, err error) {
	resp, err := c.request(ctx, http.MethodGet, path, url.Values{"after": {strconv.FormatInt(*after, 10)}}, nil)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return true, nil // the last event was seen
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 64<<10), 4<<20)
	lines.Split(wholeLines)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue // a keepalive, or a field that the data repeats
		}
		var e api.Event
		if err := json.Unmarshal(data, &e); err != nil {
			return false, api.Errorf(api.KindInternal, "cannot parse an event from the daemon: %w", err)
		}
		if e.Seq <= *after {
			continue
		}
		*after = e.Seq
		if !use(e) {
			return true, nil
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, api.Errorf(api.KindUnavailable, "the event stream of %s was interrupted: %w", path, err)
	}
	return false, nil
}
