package client

import (
	"context"
	"net/http"

	"hortus.dev/api"
)

// CreateKey makes an API key. Its Secret is told this once. Keys are for admins.
func (c *Client) CreateKey(ctx context.Context, req api.CreateKey) (api.CreatedKey, error) {
	var out api.CreatedKey
	return out, c.call(ctx, http.MethodPost, "/v1/keys", req, &out)
}

// Keys lists API keys, the newest first: those that work, or all that ever did.
func (c *Client) Keys(ctx context.Context, all bool) ([]api.Key, error) {
	return collect[api.Key](ctx, c, "/v1/keys", whether(all), 0)
}

// RevokeKey ends an API key, by its id or a unique beginning of that.
func (c *Client) RevokeKey(ctx context.Context, id string) (api.Key, error) {
	var out api.Key
	seg, err := segment(id)
	if err != nil {
		return out, err
	}
	return out, c.call(ctx, http.MethodDelete, "/v1/keys/"+seg, nil, &out)
}
