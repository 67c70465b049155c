package http

import (
	"net/http"

	"hortus.dev/api"
)

func (d system) systemRoutes() []Route {
	model := Param{Name: "model", Doc: "The model that is asked; the daemon's default where it is left out.", Type: ""}
	return []Route{{
		Method: "GET", Pattern: "/v1/info", Name: "info", Role: api.RoleUser,
		Doc:     "Which daemon answers, and what it holds. A user is told the version, and how many sandboxes are the user's own.",
		Out:     api.DaemonInfo{},
		Handler: give(func(r *http.Request) (api.DaemonInfo, error) { return d.System.Info(r.Context()) }),
	}, {
		Method: "GET", Pattern: "/v1/ready", Name: "ready", Open: true,
		Doc:    "Whether the daemon serves at full speed. 503 says what keeps it.",
		Status: http.StatusNoContent,
		Handler: func(w http.ResponseWriter, r *http.Request) {
			if err := d.System.Ready(r.Context()); err != nil {
				// The status that load balancers know, whatever the kind.
				reject(w, http.StatusServiceUnavailable, err)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		},
	}, {
		Method: "GET", Pattern: "/v1/doctor", Name: "doctor", Role: api.RoleUser,
		Doc:     "What the daemon's host can do, and why not more.",
		Out:     api.Doctor{},
		Handler: give(func(r *http.Request) (api.Doctor, error) { return d.System.Doctor(r.Context()) }),
	}, {
		Method: "POST", Pattern: "/v1/stop", Name: "stop", Role: api.RoleAdmin,
		Doc: "Stop the daemon. With sandboxes or tasks alive it refuses, unless forced to end them.",
		Params: []Param{{Name: "force", Doc: "1 ends what is alive.", Type: ""},
			{Name: "keep", Doc: "1 leaves sandboxes running for the next daemon; with tasks alive it refuses, unless forced to end them.", Type: ""}},
		Status: http.StatusNoContent,
		Handler: func(w http.ResponseWriter, r *http.Request) {
			stop := d.System.Stop
			if r.URL.Query().Get("keep") == "1" {
				stop = d.System.StopKeeping
			}
			if err := stop(r.Context(), r.URL.Query().Get("force") == "1"); err != nil {
				fail(w, err)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		},
	}, {
		Method: "POST", Pattern: "/v1/bench", Name: "bench", Role: api.RoleAdmin,
		Doc: "Measure the daemon. Rows come as they are complete, one JSON value a line, and between them lines that hold progress.",
		In:  api.BenchRequest{}, Out: api.BenchRow{}, OutType: typeLines,
		Handler: d.bench,
	}, {
		Method: "POST", Pattern: "/v1/roles/plan", Name: "plan", Role: api.RoleAdmin,
		Doc: "Ask the Planner alone.",
		In:  api.PlanRequest{}, Out: api.ExecutionPlan{}, Params: []Param{model},
		Handler: accept(http.StatusOK, func(r *http.Request, in api.PlanRequest) (api.ExecutionPlan, error) {
			return d.Roles.Plan(r.Context(), r.URL.Query().Get("model"), in)
		}),
	}, {
		Method: "POST", Pattern: "/v1/roles/code", Name: "code", Role: api.RoleAdmin,
		Doc: "Ask the Coder alone.",
		In:  api.ExecutionPlan{}, Out: api.CodeArtifact{}, Params: []Param{model},
		Handler: accept(http.StatusOK, func(r *http.Request, in api.ExecutionPlan) (api.CodeArtifact, error) {
			return d.Roles.Code(r.Context(), r.URL.Query().Get("model"), in)
		}),
	}, {
		Method: "POST", Pattern: "/v1/roles/debug", Name: "debug", Role: api.RoleAdmin,
		Doc: "Ask the Debugger alone.",
		In:  api.DebugRequest{}, Out: api.Diagnosis{}, Params: []Param{model},
		Handler: accept(http.StatusOK, func(r *http.Request, in api.DebugRequest) (api.Diagnosis, error) {
			return d.Roles.Debug(r.Context(), r.URL.Query().Get("model"), in)
		}),
	}}
}

// bench streams rows as they are complete, one JSON value a line, and between
// them lines {"progress": ...}.
func (d system) bench(w http.ResponseWriter, r *http.Request) {
	var in api.BenchRequest
	if err := decode(w, r, &in); err != nil {
		fail(w, err)
		return
	}
	out := lines{w: w}
	out.end(d.System.Bench(r.Context(), in, func(row api.BenchRow) { out.write(row) },
		func(p api.BenchProgress) { out.write(map[string]api.BenchProgress{"progress": p}) }))
}
