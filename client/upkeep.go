package client

import (
	"context"
	"net/http"

	"hortus.dev/api/admin"
)

// Configure changes what is named of the daemon's settings, until it ends, and
// gives what holds then.
func (c *Client) Configure(ctx context.Context, want admin.DaemonSettings) (admin.DaemonSettings, error) {
	var out admin.DaemonSettings
	return out, c.call(ctx, http.MethodPost, "/v1/settings", want, &out)
}

// DiskUsage returns what the daemon's data directory holds.
func (c *Client) DiskUsage(ctx context.Context) (admin.DiskUsage, error) {
	var out admin.DiskUsage
	return out, c.call(ctx, http.MethodGet, "/v1/disk", nil, &out)
}

// Collect removes what nothing in the data directory refers to, and lists it.
func (c *Client) Collect(ctx context.Context, req admin.CollectRequest) (admin.Collected, error) {
	var out admin.Collected
	return out, c.call(ctx, http.MethodPost, "/v1/collect", req, &out)
}
