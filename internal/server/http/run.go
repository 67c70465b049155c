package http

import (
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/server/forward"
)

func (d tasks) runRoutes() []Route {
	const one = "/v1/runs/{id}"
	return []Route{{
		Method: "POST", Pattern: "/v1/runs", Name: "createRun", Role: api.RoleUser, Creates: true, Places: forward.Task, keyed: true,
		Doc: "Create a verified program from a sentence. With Accept: text/event-stream the answer is the run's events, up to the verdict; " +
			"otherwise it is the record of the run, which continues.",
		In: api.CreateRun{}, Out: api.Task{}, Status: http.StatusAccepted, Events: runEvent{},
		Handler: d.createRun,
	}, {
		Method: "GET", Pattern: "/v1/runs", Name: "runs", Role: api.RoleUser,
		Doc: "List the runs, newest first.",
		Out: []api.Task{}, Paged: true, Params: []Param{stateParam, outcomeParam},
		Handler: page(d.taskPage(true)),
	}, {
		Method: "GET", Pattern: one, Name: "run", Role: api.RoleUser, Stored: true,
		Doc:     "Get a run with its attempts.",
		Out:     api.Task{},
		Handler: d.onRun(func(w http.ResponseWriter, _ *http.Request, t api.Task) error { return reply(w, http.StatusOK, t, nil) }),
	}, {
		Method: "GET", Pattern: one + "/events", Name: "runEvents", Role: api.RoleUser, Stored: true,
		Doc: "Stream the run's events: plan, code, attempt, output, result, diagnosis and others, and finally one verdict. " +
			"A client that reconnects with the verdict's number gets 204.",
		Out: runEvent{}, OutType: typeEvents, Params: eventParams,
		Handler: d.onRun(func(w http.ResponseWriter, r *http.Request, t api.Task) error {
			return d.events.serve(w, r, runEvents(t.ID))
		}),
	}, {
		Method: "POST", Pattern: one + "/cancel", Name: "cancelRun", Role: api.RoleUser,
		Doc: "Cancel a run. The answer is the ended run, with the receipt of what it had finished.",
		Out: api.Task{},
		Handler: d.onRun(func(w http.ResponseWriter, r *http.Request, t api.Task) error {
			v, err := d.Tasks.Cancel(r.Context(), t.ID)
			return reply(w, http.StatusOK, v, err)
		}),
	}, {
		Method: "GET", Pattern: one + "/attempts/{n}/{stream}", Name: "runOutput", Role: api.RoleUser,
		Doc:     "Get everything that an attempt wrote to stdout or to stderr.",
		OutType: typeBytes,
		Handler: d.onRun(func(w http.ResponseWriter, r *http.Request, t api.Task) error { return d.output(w, r, t.ID) }),
	}}
}

// createRun makes a run, once where the request has a key, and answers with its
// record or with its events.
func (d tasks) createRun(w http.ResponseWriter, r *http.Request) error {
	events := accepts(r, typeEvents)
	a, err := d.once.do(w, r, &recorder{to: w}, func(w http.ResponseWriter, r *http.Request) error {
		var in api.CreateRun
		err := decode(w, r, &in)
		if err == nil && in.Request == "" {
			err = api.Errorf(api.KindInvalid, "request is empty: it must be a sentence that describes the program")
		}
		if err != nil {
			return err
		}
		t, err := d.Tasks.Create(r.Context(), in.Task())
		if err == nil {
			w.Header().Set("Location", "/v1/runs/"+string(t.ID))
		}
		return reply(w, http.StatusAccepted, t, err)
	})
	if err != nil {
		return err
	}
	if !events || a.Status != http.StatusAccepted {
		a.write(w)
		return nil
	}
	var t api.Task
	if err := json.Unmarshal(a.Body, &t); err != nil {
		return api.Errorf(api.KindInternal, "read the record of the new run: %w", err)
	}
	w.Header().Set("Location", a.Location)
	return d.events.serve(w, r, runEvents(t.ID))
}

// onRun serves a call on one run. To a user another account's run is not there, and
// only a whole identifier finds one: a beginning would tell what else begins so.
func (d tasks) onRun(h func(http.ResponseWriter, *http.Request, api.Task) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		p, id := api.PrincipalOf(r.Context()), api.TaskID(r.PathValue("id"))
		var t api.Task
		var err error
		if !id.Valid() && p.Role == api.RoleAdmin {
			id, err = d.Tasks.Find(r.Context(), string(id))
		}
		if err == nil && id.Valid() {
			t, err = d.Tasks.Get(r.Context(), id)
		}
		switch {
		case err != nil && api.KindOf(err) != api.KindNotFound:
			return err
		case err != nil || !id.Valid() || t.Create.Repo != nil || !p.May(t.Account):
			return api.Errorf(api.KindNotFound, "unknown run %.64q", r.PathValue("id"))
		}
		return h(w, r, t)
	}
}

// accepts reports whether a client names a media type as one that it accepts.
func accepts(r *http.Request, want string) bool {
	for _, line := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(line, ",") {
			kind, params, err := mime.ParseMediaType(part)
			if err != nil || kind != want {
				continue
			}
			if q, err := strconv.ParseFloat(params["q"], 64); err != nil || q > 0 {
				return true
			}
		}
	}
	return false
}

// runEvents is the log of a run as its stream.
func runEvents(id api.TaskID) feed {
	return feed{
		stream: api.Stream{Kind: api.StreamTask, ID: string(id)},
		name:   api.EventType.RunName,
		last:   func(e api.Event) bool { return e.Type == api.EventTaskFinished },
	}
}
