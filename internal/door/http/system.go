package http

import (
	"net/http"

	"hortus.dev/api"
)

func (d *door) systemRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/info", func(w http.ResponseWriter, r *http.Request) {
		v, err := d.System.Info(r.Context())
		reply(w, v, err)
	})
	mux.HandleFunc("GET /v1/ready", func(w http.ResponseWriter, r *http.Request) {
		if err := d.System.Ready(r.Context()); err != nil {
			// The status that load balancers know, whatever the kind.
			reject(w, http.StatusServiceUnavailable, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /v1/doctor", func(w http.ResponseWriter, r *http.Request) {
		v, err := d.System.Doctor(r.Context())
		reply(w, v, err)
	})
	mux.HandleFunc("POST /v1/stop", func(w http.ResponseWriter, r *http.Request) {
		if err := d.System.Stop(r.Context(), r.URL.Query().Get("force") == "1"); err != nil {
			fail(w, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /v1/bench", d.bench)
	mux.HandleFunc("POST /v1/roles/plan", func(w http.ResponseWriter, r *http.Request) {
		var in api.PlanRequest
		if err := decode(w, r, &in); err != nil {
			fail(w, err)
			return
		}
		v, err := d.Roles.Plan(r.Context(), r.URL.Query().Get("model"), in)
		reply(w, v, err)
	})
	mux.HandleFunc("POST /v1/roles/code", func(w http.ResponseWriter, r *http.Request) {
		var in api.ExecutionPlan
		if err := decode(w, r, &in); err != nil {
			fail(w, err)
			return
		}
		v, err := d.Roles.Code(r.Context(), r.URL.Query().Get("model"), in)
		reply(w, v, err)
	})
	mux.HandleFunc("POST /v1/roles/debug", func(w http.ResponseWriter, r *http.Request) {
		var in api.DebugRequest
		if err := decode(w, r, &in); err != nil {
			fail(w, err)
			return
		}
		v, err := d.Roles.Debug(r.Context(), r.URL.Query().Get("model"), in)
		reply(w, v, err)
	})
}

// bench streams rows as they are complete, one JSON value a line, and between
// them lines {"progress": ...}.
func (d *door) bench(w http.ResponseWriter, r *http.Request) {
	var in api.BenchRequest
	if err := decode(w, r, &in); err != nil {
		fail(w, err)
		return
	}
	out := lines{w: w}
	out.end(d.System.Bench(r.Context(), in, func(row api.BenchRow) { out.write(row) },
		func(p api.BenchProgress) { out.write(map[string]api.BenchProgress{"progress": p}) }))
}
