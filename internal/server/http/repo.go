package http

import (
	"context"
	"io"
	"net/http"
	"strconv"

	"hortus.dev/api"
)

// RepoTasks is what the server asks of tasks on repositories. Each gives
// KindConflict for a task of another sort or one that has no such result (yet),
// KindNotFound for a round or an output that there is not. The reader is read to
// its end or closed early.
type RepoTasks interface {
	// Diff returns the patch from the commit that the work started from to the
	// result of a round; round 0 means the task's result. repository names one of several
	// repositories; empty for all.
	Diff(ctx context.Context, id api.TaskID, round int, repository string) (io.ReadCloser, error)
	// Deliver delivers the task's verified result and gives the task when that
	// ended; what kept the delivery from happening is in it.
	Deliver(ctx context.Context, id api.TaskID, req api.DeliverTask) (api.Task, error)
	// Applied records that a person took the task's verified result.
	Applied(ctx context.Context, id api.TaskID) (api.Task, error)
	// Bundle returns the result's commits as a git bundle, of one of several repositories.
	Bundle(ctx context.Context, id api.TaskID, repository string) (io.ReadCloser, error)
	// Transcript returns what the agent and its model said to each other, as JSON
	// lines: of the only agent or of the chosen candidate (0), or of a candidate by its number.
	Transcript(ctx context.Context, id api.TaskID, candidate int) (io.ReadCloser, error)
	// GateOutput returns everything that a gate printed. which is one of
	// [api.GateBefore] (of round 0), [api.GateResult], [api.GateOriginal], [api.GateWithout],
	// [api.GateDisguised] and [api.GateMutant].
	GateOutput(ctx context.Context, id api.TaskID, round int, which string) (io.ReadCloser, error)
}

// maxStored bounds what is sent of a stored result, in bytes. What is longer ends
// with an error on the connection instead of looking complete.
const maxStored = 1 << 30

func (d tasks) repoRoutes() []Route {
	const one = "/v1/tasks/{id}"
	oneRepository := Param{Name: "repository", Doc: "Name of one of several repositories of the task.", Type: ""}
	return []Route{{
		Method: "GET", Pattern: one + "/diff", Name: "taskDiff", Role: api.RoleUser,
		Doc:     "Get the patch from the base commit to the result of the task.",
		OutType: "text/x-diff", Params: []Param{{Name: "round", Doc: "Number of the round whose result to compare (default: the result of the task).", Type: 0}, oneRepository},
		Handler: d.stored("text/x-diff", func(r *http.Request, id api.TaskID) (_ io.ReadCloser, err error) {
			n := 0
			if s := r.URL.Query().Get("round"); s != "" {
				if n, err = roundOf(s, 1); err != nil {
					return nil, err
				}
			}
			return d.Tasks.Diff(r.Context(), id, n, r.URL.Query().Get("repository"))
		}),
	}, {
		Method: "POST", Pattern: one + "/deliver", Name: "deliverTask", Role: api.RoleAdmin,
		Doc: "Deliver the task's verified result. If the delivery failed, the answer says why.",
		In:  api.DeliverTask{}, Out: api.Task{},
		Handler: change(http.StatusOK, decode, d.Tasks, d.taskID, Tasks.Deliver),
	}, {
		Method: "POST", Pattern: one + "/applied", Name: "taskApplied", Role: api.RoleUser,
		Doc: "Record that a person took the task's verified result. It is then a lesson for later tasks.",
		Out: api.Task{}, Handler: on(d.Tasks, d.taskID, Tasks.Applied),
	}, {
		Method: "GET", Pattern: one + "/bundle", Name: "taskBundle", Role: api.RoleUser,
		Doc:     "Get the commits of the result as a git bundle.",
		OutType: "application/x-git-bundle", Params: []Param{oneRepository},
		Handler: d.stored("application/x-git-bundle", func(r *http.Request, id api.TaskID) (io.ReadCloser, error) {
			return d.Tasks.Bundle(r.Context(), id, r.URL.Query().Get("repository"))
		}),
	}, {
		Method: "GET", Pattern: one + "/transcript", Name: "taskTranscript", Role: api.RoleUser,
		Doc:     "Get the messages between the agent and its model, as JSON lines.",
		OutType: "application/jsonl", Params: []Param{{Name: "candidate", Doc: "Number of one of several candidates (default: the chosen one).", Type: 0}},
		Handler: d.stored("application/jsonl", func(r *http.Request, id api.TaskID) (io.ReadCloser, error) {
			n := 0
			if s := r.URL.Query().Get("candidate"); s != "" {
				var err error
				if n, err = strconv.Atoi(s); err != nil || n < 1 || n > api.MaxCandidates {
					return nil, api.Errorf(api.KindInvalid, "candidate %.20q is not a number from 1 to %d", s, api.MaxCandidates)
				}
			}
			return d.Tasks.Transcript(r.Context(), id, n)
		}),
	}, {
		Method: "GET", Pattern: one + "/gates/{round}/{which}", Name: "taskGate", Role: api.RoleUser,
		Doc:     "Get the whole output of a gate. The parameter which is before (of round 0), gate, original, without or mutant, or a step of the setup, such as setup-01 (of round 0).",
		OutType: typeBytes,
		Handler: d.stored(typeBytes, d.gate),
	}}
}

// gate opens the whole output of one gate.
func (d tasks) gate(r *http.Request, id api.TaskID) (io.ReadCloser, error) {
	which := r.PathValue("which")
	least := 1
	switch which {
	case api.GateBefore:
		least = 0
	case api.GateResult, api.GateOriginal, api.GateWithout, api.GateDisguised, api.GateAcceptance, api.GateMutant:
	default:
		if !api.IsSetupOutput(which) {
			return nil, api.Errorf(api.KindInvalid, "unknown gate %.20q: use before, gate, original, without, disguised, acceptance, mutant or setup-01", which)
		}
		least = 0
	}
	n, err := roundOf(r.PathValue("round"), least)
	if err != nil {
		return nil, err
	}
	return d.Tasks.GateOutput(r.Context(), id, n, which)
}

// roundOf reads the number of a round.
func roundOf(s string, least int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > api.MaxPasses {
		return 0, api.Errorf(api.KindInvalid, "round %.20q is not a number between %d and %d", s, least, api.MaxPasses)
	}
	return n, nil
}

// stored sends what is kept of a task and open opens.
func (d tasks) stored(mime string, open func(*http.Request, api.TaskID) (io.ReadCloser, error)) handler {
	return d.onTask(func(w http.ResponseWriter, r *http.Request, id api.TaskID) error {
		body, err := open(r, id)
		if err != nil {
			return err
		}
		defer body.Close()
		w.Header().Set("Content-Type", mime)
		// What comes from a repository or a model is never a page of this server's.
		w.Header().Set("X-Content-Type-Options", "nosniff")
		n, err := io.Copy(w, io.LimitReader(body, maxStored+1))
		if err != nil || n > maxStored {
			// The answer must not look complete.
			if r.Context().Err() == nil {
				d.Logger.Warn("a stored result was truncated", "path", r.URL.Path, "bytes", n, "error", err)
			}
			panic(http.ErrAbortHandler)
		}
		return nil
	})
}
