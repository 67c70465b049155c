package http

import (
	"context"
	"net/http"

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

func (d system) systemRoutes() []Route {
	model := Param{Name: "model", Doc: "Name of the model (default: the daemon's).", Type: ""}
	return []Route{{
		Method: "GET", Pattern: "/v1/info", Name: "info", Role: api.RoleUser,
		Doc:     "Get the daemon's version and state. A user gets the version and the number of the user's own sandboxes only.",
		Out:     admin.DaemonInfo{},
		Handler: give(func(r *http.Request) (admin.DaemonInfo, error) { return d.System.Info(r.Context()) }),
	}, {
		Method: "GET", Pattern: "/v1/ready", Name: "ready", Open: true,
		Doc:    "Check whether the daemon serves at full speed. The answer 503 says what is missing.",
		Status: http.StatusNoContent,
		Handler: func(w http.ResponseWriter, r *http.Request) error {
			if err := d.System.Ready(r.Context()); err != nil {
				// The status that load balancers know, whatever the kind.
				return statusError{err, http.StatusServiceUnavailable}
			}
			return done(w, nil)
		},
	}, {
		Method: "GET", Pattern: "/v1/doctor", Name: "doctor", Role: api.RoleUser,
		Doc:     "Get what the daemon's host supports and, if something is not supported, why.",
		Out:     admin.Doctor{},
		Handler: give(func(r *http.Request) (admin.Doctor, error) { return d.System.Doctor(r.Context()) }),
	}, {
		Method: "POST", Pattern: "/v1/stop", Name: "stop", Role: api.RoleAdmin,
		Doc: "Stop the daemon. It refuses while sandboxes or tasks run, unless force is set.",
		Params: []Param{{Name: "force", Doc: "1 ends running sandboxes and tasks.", Type: ""},
			{Name: "keep", Doc: "1 leaves sandboxes running for the next daemon. It refuses while tasks run, unless force is set.", Type: ""}},
		Status: http.StatusNoContent,
		Handler: func(w http.ResponseWriter, r *http.Request) error {
			stop := d.System.Stop
			if r.URL.Query().Get("keep") == "1" {
				stop = d.System.StopKeeping
			}
			return done(w, stop(r.Context(), r.URL.Query().Get("force") == "1"))
		},
	}, {
		Method: "POST", Pattern: "/v1/console", Name: "openConsole", Role: api.RoleAdmin,
		Doc:     "Get a link that signs in a browser to the web console, once, within a minute. A daemon without a TCP listener opens a port of its machine for it.",
		Out:     admin.ConsoleLink{},
		Handler: give(func(r *http.Request) (admin.ConsoleLink, error) { return d.Console.Link(r.Context()) }),
	}, {
		Method: "POST", Pattern: "/v1/roles/plan", Name: "plan", Role: api.RoleAdmin,
		Doc: "Run the Planner only.",
		In:  api.PlanRequest{}, Out: api.ExecutionPlan{}, Params: []Param{model},
		Handler: role(d.Roles, Roles.Plan),
	}, {
		Method: "POST", Pattern: "/v1/roles/code", Name: "code", Role: api.RoleAdmin,
		Doc: "Run the Coder only.",
		In:  api.ExecutionPlan{}, Out: api.CodeArtifact{}, Params: []Param{model},
		Handler: role(d.Roles, Roles.Code),
	}, {
		Method: "POST", Pattern: "/v1/roles/debug", Name: "debug", Role: api.RoleAdmin,
		Doc: "Run the Debugger only.",
		In:  api.DebugRequest{}, Out: api.Diagnosis{}, Params: []Param{model},
		Handler: role(d.Roles, Roles.Debug),
	}}
}

// role serves a call of one role.
func role[In, Out any](roles Roles, method func(Roles, context.Context, string, In) (Out, error)) handler {
	return accept(http.StatusOK, decode, func(r *http.Request, in In) (Out, error) {
		return method(roles, r.Context(), r.URL.Query().Get("model"), in)
	})
}

// Upkeep is what the server asks of the daemon's own keeping.
type Upkeep interface {
	// Configure changes what is named and gives what holds then.
	Configure(ctx context.Context, want admin.DaemonSettings) (admin.DaemonSettings, error)
	Usage(ctx context.Context) (admin.DiskUsage, error)
	Collect(ctx context.Context, req admin.CollectRequest) (admin.Collected, error)
}

func (d system) upkeepRoutes() []Route {
	return []Route{{
		Method: "POST", Pattern: "/v1/settings", Name: "configure", Role: api.RoleAdmin,
		Doc: "Change settings of the daemon. Omitted fields keep their values. The answer has all settings.",
		In:  admin.DaemonSettings{}, Out: admin.DaemonSettings{},
		Handler: create(http.StatusOK, d.Upkeep, Upkeep.Configure),
	}, {
		Method: "GET", Pattern: "/v1/disk", Name: "diskUsage", Role: api.RoleUser,
		Doc:     "Get the disk usage of the data directory, what garbage collection would free, and what each account stores. A user gets what the user's own account stores only.",
		Out:     admin.DiskUsage{},
		Handler: give(func(r *http.Request) (admin.DiskUsage, error) { return d.Upkeep.Usage(r.Context()) }),
	}, {
		Method: "POST", Pattern: "/v1/collect", Name: "collect", Role: api.RoleAdmin,
		Doc: "Collect garbage in the data directory, or list it.",
		In:  admin.CollectRequest{}, Out: admin.Collected{},
		Handler: create(http.StatusOK, d.Upkeep, Upkeep.Collect),
	}}
}
