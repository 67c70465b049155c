package client

import (
	"context"
	"net/http"

	"hortus.dev/api"
)

// Configure changes what is named of the daemon's settings, until it ends, and
// gives what holds then.
func (c *Client) Configure(ctx context.Context, want api.DaemonSettings) (api.DaemonSettings, error) {
	var out api.DaemonSettings
	return out, c.call(ctx, http.MethodPost, "/v1/settings", want, &out)
}

// DiskUsage returns what the daemon's data directory holds.
func (c *Client) DiskUsage(ctx context.Context) (api.DiskUsage, error) {
	var out api.DiskUsage
	return out, c.call(ctx, http.MethodGet, "/v1/disk", nil, &out)
}

// Collect removes what nothing in the data directory refers to, and lists it.
func (c *Client) Collect(ctx context.Context, req api.CollectRequest) (api.Collected, error) {
	var out api.Collected
	return out, c.call(ctx, http.MethodPost, "/v1/collect", req, &out)
}
