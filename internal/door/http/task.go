package http

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"hortus.dev/api"
)

// listDefault and listMost bound a list of tasks.
const (
	listDefault = 50
	listMost    = 1000
)

func (d *door) taskRoutes(mux *http.ServeMux) {
	const one = "/v1/tasks/{id}"
	mux.HandleFunc("POST /v1/tasks", func(w http.ResponseWriter, r *http.Request) {
		var in api.CreateTask
		if err := decode(w, r, &in); err != nil {
			fail(w, err)
			return
		}
		v, err := d.Tasks.Create(r.Context(), in)
		if err != nil {
			fail(w, err)
			return
		}
		answer(w, http.StatusCreated, v)
	})
	mux.HandleFunc("GET /v1/tasks", func(w http.ResponseWriter, r *http.Request) {
		limit := listDefault
		if s := r.URL.Query().Get("limit"); s != "" {
			n, err := strconv.Atoi(s)
			if err != nil || n < 1 || n > listMost {
				fail(w, api.Errorf(api.KindInvalid, "limit %.20q is not a number between 1 and %d", s, listMost))
				return
			}
			limit = n
		}
		v, err := d.Tasks.List(r.Context(), limit)
		if v == nil {
			v = []api.Task{}
		}
		reply(w, v, err)
	})
	mux.HandleFunc("GET /v1/stats", func(w http.ResponseWriter, r *http.Request) {
		var since time.Time
		if s := r.URL.Query().Get("since"); s != "" {
			var err error
			if since, err = time.Parse(time.RFC3339Nano, s); err != nil {
				fail(w, api.Errorf(api.KindInvalid, "since %.40q is not an instant of RFC 3339", s))
				return
			}
		}
		v, err := d.Tasks.Stats(r.Context(), since)
		reply(w, v, err)
	})
	d.onTask(mux, "GET "+one, func(w http.ResponseWriter, r *http.Request, id api.TaskID) {
		v, err := d.Tasks.Get(r.Context(), id)
		reply(w, v, err)
	})
	d.onTask(mux, "POST "+one+"/cancel", func(w http.ResponseWriter, r *http.Request, id api.TaskID) {
		v, err := d.Tasks.Cancel(r.Context(), id)
		reply(w, v, err)
	})
	d.onTask(mux, "GET "+one+"/events", func(w http.ResponseWriter, r *http.Request, id api.TaskID) {
		if _, err := d.Tasks.Get(r.Context(), id); err != nil {
			fail(w, err)
			return
		}
		d.events(w, r, api.Stream{Kind: api.StreamTask, ID: string(id)})
	})
	d.onTask(mux, "GET "+one+"/attempts/{n}/{stream}", func(w http.ResponseWriter, r *http.Request, id api.TaskID) {
		n, err := strconv.Atoi(r.PathValue("n"))
		stream := r.PathValue("stream")
		if err != nil || stream != "stdout" && stream != "stderr" {
			fail(w, api.Errorf(api.KindInvalid, "no output %.20q of attempt %.20q: a number, and stdout or stderr", stream, r.PathValue("n")))
			return
		}
		out, err := d.Tasks.Output(r.Context(), id, n, stream)
		if err != nil {
			fail(w, err)
			return
		}
		defer out.Close()
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = io.Copy(w, out) // a client that has gone is told nothing
	})
}

// onTask serves a call on one task.
func (d *door) onTask(mux *http.ServeMux, pattern string, h func(http.ResponseWriter, *http.Request, api.TaskID)) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		id := api.TaskID(r.PathValue("id"))
		if !id.Valid() {
			var err error
			if id, err = d.Tasks.Find(r.Context(), string(id)); err != nil {
				fail(w, err)
				return
			}
		}
		h(w, r, id)
	})
}
