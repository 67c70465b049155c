package manager

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/outgoing"
)

// RevokeSecret takes a secret from a sandbox that runs or is paused, for good, with the rules that
// are there for it. Requests that begin later are refused. KindNotFound if the sandbox may not use
// it; other errors are those of SetEgress.
func (m policies) RevokeSecret(ctx context.Context, id api.SandboxID, name string) (api.Sandbox, error) {
	return m.changeEgress(ctx, id, outgoing.Revoke(name, m.wall()))
}

// SecretChanged makes the policies of the sandboxes that may use a secret of an account follow its
// bindings. It waits for those that can be reached soon.
func (m policies) SecretChanged(ctx context.Context, account, name string) {
	rows, err := m.cfg.Rows.ListSandboxes(ctx, false)
	if err != nil {
		m.log.Error("the policies of sandboxes do not follow a secret", "secret", name, "error", err)
	}
	m.follower().Changed(rows, account, name)
}

func (m policies) follower() outgoing.Follower {
	return outgoing.Follower{Change: m.changeEgress, Spawn: m.spawn, Context: m.ctx, Logger: m.log}
}
