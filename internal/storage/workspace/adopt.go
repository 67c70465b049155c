package workspace

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"hortus.dev/api"
)

// Adopt makes a task the owner of a workspace that belongs to another one: it is kept
// as long as the new owner. KindConflict if it is in use or belongs to a third task,
// KindNotFound if it was removed.
func (s *Store) Adopt(ctx context.Context, id api.WorkspaceID, from, to api.TaskID) error {
	l, err := s.lease(id)
	if err != nil {
		return err
	}
	defer unlock(l.dir)
	if l.rec.Task != from {
		return api.Errorf(api.KindConflict, "workspace %s belongs to task %s, not to task %s", id, l.rec.Task, from).
			WithHint("The work was continued. To see it: hortus task show %s.", l.rec.Task)
	}
	return l.change(func(w *api.Workspace) { w.Task = to })
}

// SetQuota changes the quota of a workspace that nobody uses: KindConflict otherwise. A quota
// below what the workspace has keeps it from being used until files are removed or the quota
// is raised.
func (s *Store) SetQuota(ctx context.Context, id api.WorkspaceID, bytes int64) error {
	if bytes <= 0 {
		return api.Errorf(api.KindInvalid, "the quota of a workspace must be above 0")
	}
	l, err := s.lease(id)
	if err != nil {
		return err
	}
	defer unlock(l.dir)
	return l.change(func(w *api.Workspace) { w.QuotaBytes = bytes })
}

// change changes the record of a workspace whose lock is held, and its row.
func (l *Lease) change(set func(*api.Workspace)) error {
	return l.rewrite(l.rec, set)
}

// rewrite is change from another record.
func (l *Lease) rewrite(rec record, set func(*api.Workspace)) error {
	set(&rec.Workspace)
	b, err := json.MarshalIndent(rec, "", "\t")
	// The record decides what is collected, and goes first. A row that is behind only
	// shows the old values.
	if err == nil {
		err = replaceRecord(l.Path(), b)
	}
	if err != nil {
		return l.s.diskError(err, "store the record of workspace "+string(rec.ID))
	}
	l.s.row(rec, set)
	return nil
}

// replaceRecord writes the record of a workspace whose lock is held. A crash leaves the
// old one or the new one.
func replaceRecord(dir string, b []byte) error {
	tmp := filepath.Join(dir, recordName+".new")
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp, filepath.Join(dir, recordName))
	}
	return err
}
