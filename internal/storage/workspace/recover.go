package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"hortus.dev/api"
)

// Recover brings rows and directories together after an owner has gone: a row
// without a directory is removed, a directory without a row gets one, and what was
// active for an owner for which gone answers true is idle again. What such an owner made
// for a fork that it did not complete is removed, as is a directory whose row another node has. It returns how many rows it changed. It comes after the recovery of sandboxes, which ends those
// that had a workspace.
func (s *Store) Recover(ctx context.Context, gone func(api.OwnerID) bool) (int, error) {
	if s.cfg.Rows == nil {
		return 0, nil
	}
	rows, err := s.cfg.Rows.ListWorkspaces(ctx)
	if err != nil {
		return 0, err
	}
	here, err := s.List()
	if err != nil {
		return 0, err
	}
	present := map[api.WorkspaceID]bool{}
	for _, id := range here {
		present[id] = true
	}
	changed := 0
	var errs []error
	known := map[api.WorkspaceID]bool{}
	for _, w := range rows {
		known[w.ID] = true
		switch {
		case s.moved(ctx, w) != nil: // also if its owner has ended: the files were on that node
			if present[w.ID] {
				errs = append(errs, s.drop(w.ID))
			}
			continue
		case w.Owner != "" && w.Owner != s.cfg.Owner && !gone(w.Owner):
			continue // another daemon's, perhaps of another host
		case !present[w.ID]:
			w.State, w.Reason, w.EndedAt = api.WorkspaceRemoved, "its directory is missing", s.cfg.Now().UTC()
		case w.State == api.WorkspaceActive && w.Owner != s.cfg.Owner:
			w.State, w.Owner = api.WorkspaceIdle, s.cfg.Owner
		default:
			continue
		}
		if err := s.cfg.Rows.UpdateWorkspace(ctx, w); err != nil {
			errs = append(errs, err)
			continue
		}
		changed++
	}
	for _, id := range here {
		if known[id] {
			continue
		}
		w, err := s.Get(id)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		w.State, w.Owner = api.WorkspaceIdle, s.cfg.Owner
		err = s.cfg.Rows.InsertWorkspace(ctx, w)
		if api.KindOf(err) == api.KindExists {
			// Its row says that it was removed, and stands: the files go too.
			err = s.RemoveLater(id, "")
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		changed++
	}
	errs = append(errs, s.finishForks(here, gone))
	return changed, errors.Join(errs...)
}

// drop removes what is left here of a workspace that another node has. Its row stays.
func (s *Store) drop(id api.WorkspaceID) error {
	l, err := s.lease(id)
	if err != nil {
		return err
	}
	defer unlock(l.dir)
	away := filepath.Join(s.dir, gone+string(id))
	if err := os.Rename(s.path(id), away); err != nil {
		return api.Errorf(api.KindInternal, "workspace %s: remove: %w", id, err)
	}
	s.later(away, func() error { return s.remove(s.ctx, away) })
	return nil
}
