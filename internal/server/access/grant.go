package access

import (
	"context"

	"hortus.dev/api"
)

// RevokeSecret takes a secret from a sandbox of the caller's. It opens nothing, so a key with a
// ceiling may do it for the sandboxes of other keys of its account too.
func (e *Egress) RevokeSecret(ctx context.Context, id api.SandboxID, name string) (api.Sandbox, error) {
	p, err := caller(ctx)
	if err == nil {
		_, err = e.cfg.Sandboxes.get(ctx, p, id)
	}
	return ifAllowed(err, func() (api.Sandbox, error) { return e.cfg.Policies.RevokeSecret(ctx, id, name) })
}
