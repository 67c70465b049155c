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
