package client

import (
	"context"
	"net/http"

	"hortus.dev/api"
)

// RevokeSecret takes a secret from the sandbox, for good, with the rules of its policy that are
// there for it. Requests that begin later are refused, and WebSockets that were opened with the
// secret are closed. It fails with KindNotFound if the sandbox may not use the secret.
func (s *Sandbox) RevokeSecret(ctx context.Context, name string) (api.Sandbox, error) {
	var out api.Sandbox
	seg, err := segment(name)
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodDelete, s.path("/secrets/"+seg), nil, &out)
}
