package http

import (
	"context"
	"net/http"

	"hortus.dev/api"
)

// Upkeep is what the door asks of the daemon's own keeping.
type Upkeep interface {
	// Configure changes what is named and gives what holds then.
	Configure(ctx context.Context, want api.DaemonSettings) (api.DaemonSettings, error)
	Usage(ctx context.Context) (api.DiskUsage, error)
	Collect(ctx context.Context, req api.CollectRequest) (api.Collected, error)
}

func (d *Door) upkeepRoutes() []Route {
	return []Route{{
		Method: "POST", Pattern: "/v1/settings", Name: "configure", Role: api.RoleAdmin,
		Doc: "Change what the daemon runs with. What is left out stays; the answer is what holds then.",
		In:  api.DaemonSettings{}, Out: api.DaemonSettings{},
		Handler: func(w http.ResponseWriter, r *http.Request) {
			var in api.DaemonSettings
			if err := decode(w, r, &in); err != nil {
				fail(w, err)
				return
			}
			v, err := d.Upkeep.Configure(r.Context(), in)
			reply(w, v, err)
		},
	}, {
		Method: "GET", Pattern: "/v1/disk", Name: "diskUsage", Role: api.RoleAdmin,
		Doc: "What the data directory holds, and what of it a collection would free.",
		Out: api.DiskUsage{},
		Handler: func(w http.ResponseWriter, r *http.Request) {
			v, err := d.Upkeep.Usage(r.Context())
			reply(w, v, err)
		},
	}, {
		Method: "POST", Pattern: "/v1/collect", Name: "collect", Role: api.RoleAdmin,
		Doc: "Remove what nobody needs any more, or list it.",
		In:  api.CollectRequest{}, Out: api.Collected{},
		Handler: func(w http.ResponseWriter, r *http.Request) {
			var in api.CollectRequest
			if err := decode(w, r, &in); err != nil {
				fail(w, err)
				return
			}
			v, err := d.Upkeep.Collect(r.Context(), in)
			reply(w, v, err)
		},
	}}
}
