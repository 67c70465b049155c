package sandboxes

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/storage/workspace"
)

// Fork implements repo.Computers. The copy belongs to the account of the workspace.
func (p *Provider) Fork(ctx context.Context, task api.TaskID, from api.WorkspaceID) (api.WorkspaceID, error) {
	if err := p.unopened(ctx, from); err != nil {
		return "", err
	}
	was, err := p.cfg.Workspaces.Get(from)
	if err != nil {
		return "", err
	}
	w, err := p.cfg.Workspaces.Fork(ctx, from, workspace.New{Task: task, Account: was.Account})
	return w.ID, err
}
