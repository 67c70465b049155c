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

func (d system) upkeepRoutes() []Route {
	return []Route{{
		Method: "POST", Pattern: "/v1/settings", Name: "configure", Role: api.RoleAdmin,
		Doc: "Change settings of the daemon. Omitted fields keep their values. The answer has all settings.",
		In:  api.DaemonSettings{}, Out: api.DaemonSettings{},
		Handler: create(http.StatusOK, d.Upkeep, Upkeep.Configure),
	}, {
		Method: "GET", Pattern: "/v1/disk", Name: "diskUsage", Role: api.RoleAdmin,
		Doc:     "Get the disk usage of the data directory, and what garbage collection would free.",
		Out:     api.DiskUsage{},
		Handler: give(func(r *http.Request) (api.DiskUsage, error) { return d.Upkeep.Usage(r.Context()) }),
	}, {
		Method: "POST", Pattern: "/v1/collect", Name: "collect", Role: api.RoleAdmin,
		Doc: "Collect garbage in the data directory, or list it.",
		In:  api.CollectRequest{}, Out: api.Collected{},
		Handler: create(http.StatusOK, d.Upkeep, Upkeep.Collect),
	}}
}
