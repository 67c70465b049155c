package sealed

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/storage/artefact"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/unpack"
	"hortus.dev/internal/storage/workspace"
)

// Bring opens on this node a workspace whose row belongs to an owner of another node that has ended. fits is called when everything was fetched,
// with the state that the files will have; after its error nothing is changed.
//
// Errors: KindNotFound if no state is stored, KindConflict if something is missing or damaged in the archive, or if the row is another's,
// KindExhausted if the disk is full, those of fits, and those of the archive. After an error the row is as it was.
func (s *Workspaces) Bring(ctx context.Context, id api.WorkspaceID, fits func(context.Context, api.WorkspaceArchive) error) error {
	unlock, err := s.turns.Lock(ctx, string(id))
	if err != nil {
		return err
	}
	defer unlock()
	w, err := s.cfg.Rows.Workspace(ctx, id)
	if err != nil {
		return err
	}
	if w.Owner == s.cfg.Owner {
		return nil // somebody was faster
	}
	a := w.Archived
	if a == nil || w.State == api.WorkspaceRemoved {
		return api.Errorf(api.KindNotFound, "no state of workspace %s is in the archive", id)
	}
	return s.fetched(ctx, w, func(f workspace.Files) error {
		if err := fits(ctx, *a); err != nil {
			return err
		}
		if err := s.cfg.Store.Place(ctx, w, a.Layers, f); err != nil {
			return err
		}
		s.cfg.Logger.Info("continuing with the files of another node", "workspace", id, "task", a.Task, "before", a.Step, "bytes", a.Bytes)
		return nil
	})
}

// Copy makes a workspace with the files of one that does not change any more: those that are here, or those in the archive. What the archive has is the new one's, too.
//
// Errors: KindNotFound if the files are neither here nor in the archive, KindConflict if something is missing or damaged there or if the workspace is in use,
// KindExhausted if the disk is full, and those of the archive.
func (s *Workspaces) Copy(ctx context.Context, id api.WorkspaceID, n workspace.New) (out api.Workspace, err error) {
	w, err := s.cfg.Rows.Workspace(ctx, id)
	if err != nil {
		return out, err
	}
	n.Archived = w.Archived
	out, err = s.cfg.Store.Fork(ctx, id, n)
	if k := api.KindOf(err); k != api.KindNotFound && k != api.KindUnavailable {
		return out, err
	}
	a := w.Archived
	if a == nil || w.State == api.WorkspaceRemoved {
		return out, api.Errorf(api.KindNotFound, "the files of workspace %s are not here, and not in the archive", id)
	}
	for _, d := range a.Layers {
		n.Layers = append(n.Layers, layer.Digest(d))
	}
	n.Parent, n.Quota = id, w.QuotaBytes
	err = s.fetched(ctx, w, func(f workspace.Files) error {
		out, err = s.cfg.Store.MakeOf(ctx, n, f)
		return err
	})
	return out, err
}

// fetched fetches the state of a workspace that is in the archive, and calls use with its files.
func (s *Workspaces) fetched(ctx context.Context, w api.Workspace, use func(workspace.Files) error) error {
	dir, remove, err := s.cfg.Store.Scratch()
	if err != nil {
		return err
	}
	defer func() {
		if err := remove(); err != nil {
			s.cfg.Logger.Warn("cannot remove the files of a workspace that was fetched", "workspace", w.ID, "error", err)
		}
	}()
	f := workspace.Files{Root: filepath.Join(dir, "root"), Beside: filepath.Join(dir, "beside"), Bytes: w.Archived.Bytes}
	if err := s.fetch(ctx, *w.Archived, f.Root, f.Beside); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return api.Errorf(damaged(err), "fetch workspace %s from the archive %s: %w", w.ID, s.cfg.Artefacts, err).WithHint("%s", api.HintOf(err))
	}
	return use(f)
}

// damaged is the kind of an error about the archive: nothing that was asked is invalid.
func damaged(err error) api.Kind {
	if k := api.KindOf(err); k != api.KindInvalid && k != api.KindNotFound {
		return k
	}
	return api.KindConflict
}

// fetch gets the layers and the files of a state.
func (s *Workspaces) fetch(ctx context.Context, a api.WorkspaceArchive, root, beside string) error {
	for _, d := range a.Layers {
		if err := s.cfg.Layers.Fetch(ctx, layer.Digest(d), workspace.Own); err != nil {
			return api.Errorf(api.KindOf(err), "layer %.80s: %w", d, err).WithHint("%s", api.HintOf(err))
		}
	}
	if err := errors.Join(os.Mkdir(root, 0o755), os.Mkdir(beside, 0o700)); err != nil {
		return err
	}
	if err := s.cfg.Artefacts.Restore(ctx, artefact.Ref(a.Ref), string(a.Of), a.Bytes, beside); err != nil {
		return err
	}
	name := filepath.Join(beside, treeName)
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	got, err := unpack.Apply(ctx, f, root, unpack.Options{Owners: os.Geteuid() == 0, MaxBytes: 2*a.Bytes + 1<<20, MaxEntries: int(2 * s.cfg.Most.Files)})
	if err == nil && got.Skipped+got.Dropped > 0 {
		err = api.Errorf(api.KindInvalid, "it has something that no workspace has")
	}
	if err != nil {
		return err
	}
	return errors.Join(workspace.Own(root), os.Remove(name))
}

// collectAll removes from the archive what no row names, again and again.
func (s *Workspaces) collectAll() {
	tick := time.NewTicker(artefact.Grace)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := s.Collect(s.ctx); err != nil && s.ctx.Err() == nil {
			s.cfg.Logger.Warn("cannot remove what no workspace needs from the archive", "error", err, "hint", api.HintOf(err))
		}
	}
}

// Collect removes from the archive what no row has named for an hour, and returns how many objects that were.
func (s *Workspaces) Collect(ctx context.Context) (int, error) {
	return s.cfg.Artefacts.Collect(ctx, func(ctx context.Context) (refs []artefact.Ref, err error) {
		rows, err := s.cfg.Rows.ListWorkspaces(ctx)
		for _, w := range rows {
			if w.Archived != nil {
				refs = append(refs, artefact.Ref(w.Archived.Ref))
			}
		}
		if err == nil && s.cfg.Named != nil {
			var more []artefact.Ref
			more, err = s.cfg.Named(ctx)
			refs = append(refs, more...)
		}
		return refs, err
	})
}
