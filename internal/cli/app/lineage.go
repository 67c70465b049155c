package app

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/client"
)

// ChangeLineage changes a sandbox, and with forks each of its forks and their forks, which it names. A fork that has ended
// meanwhile, or that has not what is taken away, is left out. Without forks it says how many there are. The first row is
// that of the sandbox.
func ChangeLineage(ctx context.Context, a *App, s *client.Sandbox, forks bool, change func(*client.Sandbox) (api.Sandbox, error)) (rows []api.Sandbox, err error) {
	if !forks {
		row, err := change(s)
		if err != nil {
			return nil, err
		}
		c, err := a.Client(ctx)
		if err != nil {
			return nil, err
		}
		all, err := c.Sandboxes.Match(ctx, client.SandboxFilter{ForksOf: s.ID()})
		if err == nil && len(all) > 0 && !a.Flags.JSON {
			a.Note("not changed: its %d forks (hortus sandbox ls --forks-of %s); --forks changes them too", len(all), s.ID())
		}
		return []api.Sandbox{row}, err
	}
	for one, err := range s.Lineage(ctx) {
		if err != nil {
			return rows, err
		}
		row, err := change(one)
		one.Close()
		if kind := api.KindOf(err); len(rows) > 0 && (kind == api.KindNotFound || kind == api.KindUnavailable) {
			continue
		}
		if err != nil {
			return rows, api.Errorf(api.KindOf(err), "sandbox %s: %w", one.ID(), err).WithHint("%s", api.HintOf(err))
		}
		if rows = append(rows, row); len(rows) > 1 && !a.Flags.JSON {
			a.Note("changed too: fork %s", one.ID())
		}
	}
	return rows, nil
}
