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

func (d *door) upkeepRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/settings", func(w http.ResponseWriter, r *http.Request) {
		var in api.DaemonSettings
		if err := decode(w, r, &in); err != nil {
			fail(w, err)
			return
		}
		v, err := d.Upkeep.Configure(r.Context(), in)
		reply(w, v, err)
	})
	mux.HandleFunc("GET /v1/disk", func(w http.ResponseWriter, r *http.Request) {
		v, err := d.Upkeep.Usage(r.Context())
		reply(w, v, err)
	})
	mux.HandleFunc("POST /v1/collect", func(w http.ResponseWriter, r *http.Request) {
		var in api.CollectRequest
		if err := decode(w, r, &in); err != nil {
			fail(w, err)
			return
		}
		v, err := d.Upkeep.Collect(r.Context(), in)
		reply(w, v, err)
	})
}
