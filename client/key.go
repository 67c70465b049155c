package client

import (
	"context"
	"net/http"

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

// KeyService makes, lists and revokes API keys. It is for admins.
type KeyService struct{ service }

// Create makes an API key. Its Secret is shown only once. Keys are for admins.
func (s *KeyService) Create(ctx context.Context, req api.CreateKey) (api.CreatedKey, error) {
	var out api.CreatedKey
	return out, s.client.call(ctx, http.MethodPost, "/v1/keys", req, &out)
}

// List lists API keys, the newest first: those that work, or all that ever did.
func (s *KeyService) List(ctx context.Context, all bool) ([]api.Key, error) {
	return collect[api.Key](ctx, s.client, "/v1/keys", whether(all), 0)
}

// Revoke ends an API key, by its id or a unique beginning of that.
func (s *KeyService) Revoke(ctx context.Context, id string) (api.Key, error) {
	var out api.Key
	seg, err := segment(id)
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodDelete, "/v1/keys/"+seg, nil, &out)
}

// Console returns a link that signs in a browser to the web console, once. It is for admins.
func (c *Client) Console(ctx context.Context) (admin.ConsoleLink, error) {
	var out admin.ConsoleLink
	return out, c.call(ctx, http.MethodPost, "/v1/console", nil, &out)
}
