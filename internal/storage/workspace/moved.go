package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/beneath"
)

// Beside is the directory of a workspace for files that came with it from another host. Sandboxes do not see it.
const Beside = "beside"

// Written is a copy of what was written in a workspace over its layers.
type Written struct {
	// Layers are what it lies on, the lowest first.
	Layers []string
	// Root has the files, with the marks of an overlay, and without what an archive cannot have. Dir is its directory, in which the caller may
	// create others. Remove removes both.
	Root, Dir string
	Remove    func() error
}

// Written copies what was written in a workspace that nobody uses, which is at most so much: KindExhausted if it is more, KindConflict
// while somebody uses the workspace.
func (s *Store) Written(ctx context.Context, id api.WorkspaceID, most Usage) (_ *Written, err error) {
	l, err := s.Lease(ctx, id)
	if err != nil {
		return nil, err
	}
	defer l.Release()
	u, err := l.Measure(ctx, most)
	if err != nil {
		return nil, s.diskError(err, "measure workspace "+string(id))
	}
	if over := u.Over(most); over != "" {
		return nil, api.Errorf(api.KindExhausted, "%s were written in workspace %s", over, id)
	}
	if err := l.s.cfg.Space.CheckOf(ctx, l.rec.Account, "a copy of workspace "+string(id), u.Bytes); err != nil {
		return nil, err
	}
	w := &Written{Layers: l.rec.base()}
	if w.Dir, w.Remove, err = s.Scratch(); err != nil {
		return nil, err
	}
	w.Root = filepath.Join(w.Dir, "root")
	if err := l.copyWritten(ctx, w.Root); err != nil {
		return nil, errors.Join(s.diskError(err, "copy workspace "+string(id)), w.Remove())
	}
	return w, nil
}

// copyWritten copies what was written over the layers of a workspace into a new directory.
func (l *Lease) copyWritten(ctx context.Context, root string) error {
	upper, err := beneath.OpenDir(int(l.dir.Fd()), Upper)
	if err != nil {
		return err
	}
	defer unix.Close(upper)
	from := upper
	if l.rec.Shared > 0 {
		merged, remove, err := l.merge(ctx, l.rec.Shared)
		if err != nil {
			return err
		}
		defer remove()
		from = int(merged.Fd())
	}
	if err := os.Mkdir(root, 0o700); err != nil {
		return err
	}
	to, err := os.Open(root)
	if err != nil {
		return err
	}
	defer to.Close()
	_, err = l.s.copyInto(ctx, from, to, true)
	return err
}

// Place makes the directory of a workspace whose row belongs to an owner that has ended, and then the row this owner's. What is here under its name
// is old, and is removed.
//
// Errors: KindNotFound for a layer that is not here, KindConflict if the row is another's by now, KindExhausted if the disk is full.
// Until the row is this owner's the files count for nothing, so that it can be called again after a crash.
func (s *Store) Place(ctx context.Context, w api.Workspace, layers []string, f Files) error {
	fail := func(err error) error { return s.diskError(err, "restore workspace "+string(w.ID)) }
	done, err := s.cfg.Space.ReserveOf(ctx, w.Account, "workspace "+string(w.ID), f.Bytes)
	if err != nil {
		return err
	}
	defer done()
	release, err := s.claim(layers)
	if err != nil {
		return fail(err)
	}
	defer release()
	was := w.Owner
	w.Owner, w.State, w.Layers = s.cfg.Owner, api.WorkspaceIdle, layers
	rec := record{Workspace: w}
	rec.Archived = nil // the row has it
	old := ""
	err = s.make(rec, func(upper *os.File) error { return s.take(ctx, f, upper) }, func(tmp string) error {
		err := unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, s.path(w.ID), unix.RENAME_NOREPLACE)
		if !errors.Is(err, unix.EEXIST) {
			return err
		}
		old = tmp
		return unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, s.path(w.ID), unix.RENAME_EXCHANGE)
	})
	if err != nil {
		return fail(err)
	}
	if old != "" {
		s.later(old, func() error { return s.remove(s.ctx, old) })
	}
	s.changed(rec)
	if s.cfg.Rows == nil {
		return nil
	}
	_, err = s.cfg.Rows.ChangeWorkspace(ctx, w.ID, func(now *api.Workspace) error {
		if now.Owner != was || now.State == api.WorkspaceRemoved {
			return api.Errorf(api.KindConflict, "workspace %s was taken or removed meanwhile", w.ID)
		}
		now.Owner, now.State, now.Layers, now.Archived = w.Owner, w.State, w.Layers, w.Archived
		return nil
	})
	return err
}

// BesideOf returns the directory with the files that came with a workspace from another host; empty if there is none.
func (s *Store) BesideOf(id api.WorkspaceID) string {
	dir := filepath.Join(s.path(id), Beside)
	if st, err := os.Lstat(dir); !id.Valid() || err != nil || !st.IsDir() {
		return ""
	}
	return dir
}

// keepBeside gives the files that came with a workspace from another host to one that is made of it.
func (s *Store) keepBeside(id api.WorkspaceID, dir string) error {
	from := s.BesideOf(id)
	if from == "" {
		return nil
	}
	all, err := os.ReadDir(from)
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, Beside), 0o700)
	}
	for _, e := range all {
		if err == nil {
			err = os.Link(filepath.Join(from, e.Name()), filepath.Join(dir, Beside, e.Name())) // they do not change
		}
	}
	return err
}

// Forget marks a workspace as removed whose files are on a node that has ended. KindConflict if that has not ended.
func (s *Store) Forget(ctx context.Context, id api.WorkspaceID, reason string) error {
	if s.cfg.Rows == nil {
		return nil
	}
	_, err := s.cfg.Rows.ChangeWorkspace(ctx, id, func(w *api.Workspace) error {
		if w.State != api.WorkspaceRemoved {
			w.Owner, w.State, w.Reason, w.EndedAt = s.cfg.Owner, api.WorkspaceRemoved, reason, s.cfg.Now().UTC()
		}
		return nil
	})
	return err
}

// moved is the error for a workspace that another node has; nil if none has. What is here of it is old.
func (s *Store) moved(ctx context.Context, w api.Workspace) error {
	if s.cfg.Elsewhere == nil || w.Owner == s.cfg.Owner {
		return nil
	}
	if node := s.cfg.Elsewhere(ctx, w.Owner); node != "" {
		return api.Errorf(api.KindUnavailable, "workspace %s is on the disk of node %s", w.ID, node)
	}
	return nil
}
