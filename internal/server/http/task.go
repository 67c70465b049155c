package http

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/server/forward"
)

func (d tasks) taskRoutes() []Route {
	const one = "/v1/tasks/{id}"
	return []Route{{
		Method: "POST", Pattern: "/v1/tasks", Name: "createTask", Role: api.RoleUser, Creates: true, Places: forward.Task,
		Doc: "Create a task: a verified program, or work on a repository. It runs in the daemon.",
		In:  api.CreateTask{}, Out: api.Task{}, Status: http.StatusCreated,
		Handler: create(http.StatusCreated, d.Tasks, Tasks.Create),
	}, {
		Method: "GET", Pattern: "/v1/tasks", Name: "tasks", Role: api.RoleUser,
		Doc: "List the tasks, newest first.",
		Out: []api.Task{}, Paged: true, Params: []Param{stateParam, outcomeParam},
		Handler: page(d.taskPage(false)),
	}, {
		Method: "GET", Pattern: "/v1/stats", Name: "taskStats", Role: api.RoleUser,
		Doc: "Get statistics of past tasks: success rate, duration, failures, cost.",
		Out: admin.TaskStats{}, Params: []Param{{Name: "since", Doc: "Start of the period, in RFC 3339 (default: all stored tasks).", Type: time.Time{}}},
		Handler: give(func(r *http.Request) (v admin.TaskStats, err error) {
			var since time.Time
			if s := r.URL.Query().Get("since"); s != "" {
				if since, err = time.Parse(time.RFC3339Nano, s); err != nil {
					return v, api.Errorf(api.KindInvalid, "since %.40q is not an RFC 3339 time", s)
				}
			}
			return d.Tasks.Stats(r.Context(), since)
		}),
	}, {
		Method: "GET", Pattern: one, Name: "task", Role: api.RoleUser, Stored: true,
		Doc:     "Get a task with its attempts, by its id or a unique prefix of it.",
		Out:     api.Task{},
		Handler: on(d.Tasks, d.taskID, Tasks.Get),
	}, {
		Method: "POST", Pattern: one + "/cancel", Name: "cancelTask", Role: api.RoleUser,
		Doc:     "Cancel a task. The answer is the ended task, with the receipt of what it had finished.",
		Out:     api.Task{},
		Handler: on(d.Tasks, d.taskID, Tasks.Cancel),
	}, {
		Method: "POST", Pattern: one + "/reply", Name: "replyTask", Role: api.RoleUser, Creates: true,
		Doc: "Answer the question of a task that ended with needs_human. A new task continues its work.",
		In:  api.ReplyTask{}, Out: api.Task{}, Status: http.StatusCreated,
		Handler: change(http.StatusCreated, decode, d.Tasks, d.taskID, Tasks.Reply),
	}, {
		Method: "GET", Pattern: one + "/events", Name: "taskEvents", Role: api.RoleUser, Stored: true,
		Doc: "Stream the task's events: the stored ones, then new ones.",
		Out: api.Event{}, OutType: typeEvents, Params: eventParams,
		Handler: d.onTask(func(w http.ResponseWriter, r *http.Request, id api.TaskID) error {
			if _, err := d.Tasks.Get(r.Context(), id); err != nil {
				return err
			}
			return d.events.serve(w, r, taskEvents(id))
		}),
	}, {
		Method: "GET", Pattern: one + "/attempts/{n}/{stream}", Name: "taskOutput", Role: api.RoleUser,
		Doc:     "Get everything that an attempt wrote to stdout or to stderr.",
		OutType: typeBytes,
		Handler: d.onTask(d.output),
	}}
}

// output sends the whole output of one attempt.
func (d tasks) output(w http.ResponseWriter, r *http.Request, id api.TaskID) error {
	n, err := strconv.Atoi(r.PathValue("n"))
	stream := r.PathValue("stream")
	if err != nil || stream != "stdout" && stream != "stderr" {
		return api.Errorf(api.KindInvalid, "unknown output %.20q of attempt %.20q: use an attempt number and stdout or stderr", stream, r.PathValue("n"))
	}
	out, err := d.Tasks.Output(r.Context(), id, n, stream)
	if err != nil {
		return err
	}
	defer out.Close()
	w.Header().Set("Content-Type", typeBytes)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = io.Copy(w, out) // a client that has gone receives nothing
	return nil
}

// taskID reads the identifier of a task in the path.
func (d tasks) taskID(r *http.Request) (api.TaskID, error) { return pathID(r, d.Tasks, Tasks.Find) }

// onTask serves another call on one task.
func (d tasks) onTask(h func(http.ResponseWriter, *http.Request, api.TaskID) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, err := d.taskID(r)
		if err != nil {
			return err
		}
		return h(w, r, id)
	}
}

// Lessons is what the server asks of what tasks taught.
type Lessons interface {
	// Page lists the lessons of a scope, or of all for "", the newest first.
	Page(ctx context.Context, scope string, p api.PageRequest) (rows []api.Lesson, next string, err error)
	// Find returns the lesson whose identifier begins with a prefix.
	Find(ctx context.Context, prefix string) (api.Lesson, error)
	Remove(ctx context.Context, prefix string) (api.Lesson, error)
}

func (d lessonStore) lessonRoutes() []Route {
	id := func(r *http.Request) (string, error) { return r.PathValue("id"), nil }
	return []Route{{
		Method: "GET", Pattern: "/v1/lessons", Name: "lessons", Role: api.RoleUser,
		Doc: "List the lessons of the account: failures of verified tasks with what fixed them, newest first. Their texts are untrusted.",
		Out: []api.Lesson{}, Paged: true,
		Params: []Param{{Name: "scope", Doc: "Only the lessons of this repository (its URL) or language (\"language:python\").", Type: ""}},
		Handler: page(func(ctx context.Context, r *http.Request, p api.PageRequest) ([]api.Lesson, string, error) {
			return d.Lessons.Page(ctx, r.URL.Query().Get("scope"), p)
		}),
	}, {
		Method: "GET", Pattern: "/v1/lessons/{id}", Name: "lesson", Role: api.RoleUser,
		Doc: "Get a lesson.",
		Out: api.Lesson{}, Handler: on(d.Lessons, id, Lessons.Find),
	}, {
		Method: "DELETE", Pattern: "/v1/lessons/{id}", Name: "removeLesson", Role: api.RoleUser,
		Doc: "Remove a lesson, so that no task is given it any more.",
		Out: api.Lesson{}, Handler: on(d.Lessons, id, Lessons.Remove),
	}}
}
