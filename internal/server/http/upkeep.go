package http

import (
	"context"
	"net/http"

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

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
		Method: "GET", Pattern: "/v1/disk", Name: "diskUsage", Role: api.RoleAdmin,
		Doc:     "Get the disk usage of the data directory, and what garbage collection would free.",
		Out:     admin.DiskUsage{},
		Handler: give(func(r *http.Request) (admin.DiskUsage, error) { return d.Upkeep.Usage(r.Context()) }),
	}, {
		Method: "POST", Pattern: "/v1/collect", Name: "collect", Role: api.RoleAdmin,
		Doc: "Collect garbage in the data directory, or list it.",
		In:  admin.CollectRequest{}, Out: admin.Collected{},
		Handler: create(http.StatusOK, d.Upkeep, Upkeep.Collect),
	}}
}
