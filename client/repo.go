package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"hortus.dev/api"
)

// Diff opens the patch that a task on a repository came to: that of one round,
// or with round 0 the task's result. It is a text that `git apply` takes. An error
// of KindConflict says that there is none (yet). Close the reader; an error while
// reading means that the patch is not complete.
func (s *TaskService) Diff(ctx context.Context, id api.TaskID, round int) (io.ReadCloser, error) {
	q := url.Values{}
	if round != 0 {
		q.Set("round", strconv.Itoa(round))
	}
	return s.stored(ctx, id, "diff", q)
}

// DiffOf opens the patch of one of several repositories of a task, with paths relative to it.
func (s *TaskService) DiffOf(ctx context.Context, id api.TaskID, repository string) (io.ReadCloser, error) {
	return s.stored(ctx, id, "diff", url.Values{"repository": {repository}})
}

// Deliver delivers the verified result of a task on a repository, again or for
// the first time, and returns the task when that ended: Repo.Delivery says what came
// of it, and Delivery.Error what kept it from happening. An error of KindConflict says
// that there is no verified result, or that it is being delivered already.
func (s *TaskService) Deliver(ctx context.Context, id api.TaskID, req api.DeliverTask) (api.Task, error) {
	var out api.Task
	seg, err := segment(string(id))
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodPost, "/v1/tasks/"+seg+"/deliver", req, &out)
}

// Applied records that a person took the verified result of a task. An error of KindConflict says that it has none.
func (s *TaskService) Applied(ctx context.Context, id api.TaskID) (api.Task, error) {
	var out api.Task
	seg, err := segment(string(id))
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodPost, "/v1/tasks/"+seg+"/applied", nil, &out)
}

// Bundle opens the commits of a task's result as a git bundle.
func (s *TaskService) Bundle(ctx context.Context, id api.TaskID) (io.ReadCloser, error) {
	return s.stored(ctx, id, "bundle", nil)
}

// BundleOf opens the commits of one of several repositories of a task as a git bundle.
func (s *TaskService) BundleOf(ctx context.Context, id api.TaskID, repository string) (io.ReadCloser, error) {
	return s.stored(ctx, id, "bundle", url.Values{"repository": {repository}})
}

// Transcript opens what the agent of a task on a repository and its model said
// to each other, as JSON lines.
func (s *TaskService) Transcript(ctx context.Context, id api.TaskID) (io.ReadCloser, error) {
	return s.stored(ctx, id, "transcript", nil)
}

// TranscriptOf is Transcript of one of several candidates; 0 is the chosen one, or the only agent.
func (s *TaskService) TranscriptOf(ctx context.Context, id api.TaskID, candidate int) (io.ReadCloser, error) {
	if candidate == 0 {
		return s.Transcript(ctx, id)
	}
	return s.stored(ctx, id, "transcript", url.Values{"candidate": {strconv.Itoa(candidate)}})
}

// GateOutput opens everything that a gate printed; which is api.GateBefore (with
// round 0), api.GateResult, api.GateOriginal, api.GateWithout, api.GateDisguised, api.GateAcceptance or api.GateMutant, or, with
// round 0, a step of the setup, such as setup-01.
func (s *TaskService) GateOutput(ctx context.Context, id api.TaskID, round int, which string) (io.ReadCloser, error) {
	switch which {
	case api.GateBefore, api.GateResult, api.GateOriginal, api.GateWithout, api.GateDisguised, api.GateAcceptance, api.GateMutant:
	default:
		if !api.IsSetupOutput(which) {
			return nil, api.Errorf(api.KindInvalid, "%.20q is not a gate: use before, gate, original, without, disguised, acceptance, mutant or setup-01", which)
		}
	}
	return s.stored(ctx, id, "gates/"+strconv.Itoa(round)+"/"+which, nil)
}

// stored opens what is kept of a task.
func (s *TaskService) stored(ctx context.Context, id api.TaskID, what string, q url.Values) (io.ReadCloser, error) {
	seg, err := segment(string(id))
	if err != nil {
		return nil, err
	}
	resp, err := s.client.request(ctx, http.MethodGet, "/v1/tasks/"+seg+"/"+what, q, nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
