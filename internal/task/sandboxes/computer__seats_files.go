package sandboxes

import (
	"context"
	"errors"

	"hortus.dev/api"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/task/repo"
)

// Workspace implements repo.Sessions, for the account of the context's principal.
func (s *Sessions) Workspace(ctx context.Context, id api.SessionID, layers ...repo.Layer) (api.WorkspaceID, error) {
	w, err := s.cfg.Workspaces.Make(ctx, workspace.New{Session: id, Account: api.PrincipalOf(ctx).Account, Layers: digests(layers)})
	return w.ID, err
}

// CopyIdle copies a workspace that nobody has.
func (s *Sessions) CopyIdle(ctx context.Context, id api.SessionID, ws api.WorkspaceID) (api.WorkspaceID, error) {
	return s.Copy(ctx, id, ws, nil)
}

// Copy implements repo.Sessions.
func (s *Sessions) Copy(ctx context.Context, id api.SessionID, ws api.WorkspaceID, c repo.Sandbox) (api.WorkspaceID, error) {
	was, err := s.cfg.Workspaces.Get(ws)
	if err != nil {
		return "", err
	}
	n := workspace.New{Session: id, Account: was.Account}
	if c == nil {
		w, err := s.cfg.Workspaces.Fork(ctx, ws, n)
		return w.ID, err
	}
	return copyStanding(ctx, s.cfg.Workspaces, s.cfg.Sandboxes, c.Info().ID, ws, n, workspace.Copyable())
}

// Discard implements repo.Sessions. What cannot be removed now is removed with its session.
func (s *Sessions) Discard(ctx context.Context, ws api.WorkspaceID) {
	if err := s.cfg.Workspaces.RemoveLater(ws, "its session needs it no more"); err != nil && api.KindOf(err) != api.KindNotFound {
		s.cfg.Logger.Warn("a workspace of a session is not removed yet", "workspace", ws, "err", err)
	}
}

// Sweep removes the workspaces of a session that keep does not name. No turn of it runs.
func (s *Sessions) Sweep(ctx context.Context, id api.SessionID, keep map[api.WorkspaceID]bool) error {
	all, err := s.cfg.Workspaces.List()
	if err != nil {
		return err
	}
	var errs []error
	for _, ws := range all {
		w, err := s.cfg.Workspaces.Get(ws)
		if err != nil || w.Session != id || keep[ws] {
			continue // gone, or unreadable; or not to be removed
		}
		if err := s.cfg.Workspaces.RemoveLater(ws, "its session needs it no more"); api.KindOf(err) != api.KindNotFound {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
