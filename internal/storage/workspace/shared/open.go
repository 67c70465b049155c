package shared

import (
	"context"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/storage/workspace/register"
)

// Open makes this host the writer of a workspace and brings the last version here. done is called when the sandbox that it is for has
// the workspace, or will not have it.
//
// Errors: KindConflict while another host has it, KindNotFound if another host has removed it, KindInvalid if something in the archive
// is damaged, and those of the archive.
func (s *Workspaces) Open(ctx context.Context, id api.WorkspaceID) (done func(), err error) {
	h, err := s.open(ctx, id)
	if err != nil {
		return nil, err
	}
	return func() { s.leave(id, h) }, nil
}

// leave is the end of an open or join.
func (s *Workspaces) leave(id api.WorkspaceID, h *hold) {
	s.mu.Lock()
	h.opening--
	s.mu.Unlock()
	s.Released(id)
}

func (s *Workspaces) open(ctx context.Context, id api.WorkspaceID) (*hold, error) {
	if h, err := s.joinUnsealed(ctx, id); h != nil || err != nil {
		return h, err
	}
	unlock, err := s.turns.Lock(ctx, string(id))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if h := s.join(id); h != nil {
		return h, nil // nothing is sealed during our turn
	}
	c, err := s.lookup(id)
	if err != nil {
		return nil, err
	}
	l, err := s.take(ctx, id, c)
	if err != nil {
		return nil, about(c, err)
	}
	h := &hold{lease: &l, opening: 1}
	s.mu.Lock()
	s.held[id] = h
	s.mu.Unlock()
	return h, nil
}

// joinUnsealed is join that waits for the end of a seal.
func (s *Workspaces) joinUnsealed(ctx context.Context, id api.WorkspaceID) (*hold, error) {
	h := s.join(id)
	if h == nil {
		return nil, nil
	}
	unlock, err := s.files.Lock(ctx, string(id))
	if err != nil {
		s.leave(id, h)
		return nil, err
	}
	unlock()
	return h, nil
}

// join counts one more who opens a workspace whose lease this process has taken; nil if it has not.
func (s *Workspaces) join(id api.WorkspaceID) *hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[id]
	if h == nil || h.lease == nil {
		return nil
	}
	h.opening++
	return h
}

// take takes the lease and brings the last version. After an error the lease is released.
func (s *Workspaces) take(ctx context.Context, id api.WorkspaceID, c *workspace.Copy) (l register.Lease, err error) {
	if _, err := s.entry(ctx, c); err != nil {
		return l, err
	}
	// Recorded first: after a crash, a lease that this copy has is known.
	if err := s.leased(id, true); err != nil {
		return l, err
	}
	if l, err = s.cfg.Register.Acquire(ctx, c.ID, c.Copy); err != nil {
		err = lost(err)
		if !s.isHeld(id) {
			_ = s.leased(id, false) // otherwise the next daemon finds out
		}
		return l, err
	}
	if err := s.bring(ctx, id); err != nil {
		if !s.isHeld(id) && s.cfg.Register.Release(context.WithoutCancel(ctx), l) == nil {
			_ = s.leased(id, false)
		}
		return l, err
	}
	return l, nil
}

func (s *Workspaces) isHeld(id api.WorkspaceID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[id] != nil
}

func (s *Workspaces) leased(id api.WorkspaceID, is bool) error {
	return s.cfg.Store.SetRemote(id, func(r *workspace.Remote, _ *api.WorkspaceVersion) { r.Leased = is })
}

// bring makes the files of this host those of the last version, if they are older.
func (s *Workspaces) bring(ctx context.Context, id api.WorkspaceID) error {
	c, err := s.lookup(id)
	if err != nil {
		return err
	}
	v, err := s.cfg.Register.Last(ctx, c.ID)
	if err != nil {
		return err
	}
	switch here := c.Workspace.Version.Number; {
	case v.Number == here && (here == 0 || slices.Equal(v.Layers, c.Layers)):
		return nil
	case v.Number < here:
		// The archive has lost it: the files here are the next version.
		return s.cfg.Store.SetRemote(id, func(r *workspace.Remote, _ *api.WorkspaceVersion) { r.Layers = nil })
	case own(c, v):
		return s.stored(id, v)
	}
	if s.cfg.Store.InUse(id) {
		return lostError{api.Errorf(api.KindConflict, "host %s has stored version %d while a sandbox of this host has version %d", v.Host, v.Number, c.Workspace.Version.Number).
			WithHint("end the sandbox; what was written in it is kept")}
	}
	if err := s.fetch(ctx, v); err != nil {
		return err
	}
	unlock, err := s.files.Lock(ctx, string(id))
	if err != nil {
		return err
	}
	defer unlock()
	now := known(v)
	if c.Changed {
		kept, err := s.cfg.Store.Fork(ctx, id, workspace.New{Account: c.Workspace.Account, Keep: true})
		if err != nil {
			return err
		}
		now.Conflict = kept.ID
		s.log.Warn("another host has stored a version of a workspace; what was written here is kept as another workspace",
			"workspace", id, "name", c.Workspace.Name, "version", v.Number, "host", v.Host, "kept", kept.ID)
	}
	return s.cfg.Store.Reset(ctx, id, v.Layers, *now)
}

// own reports whether a version was made from what is on this host.
func own(c *workspace.Copy, v register.Version) bool {
	return v.Copy == c.Copy && len(v.Layers) <= len(c.Workspace.Layers) && slices.Equal(v.Layers, c.Workspace.Layers[:len(v.Layers)])
}

// stored records that a version was made from what is on this host.
func (s *Workspaces) stored(id api.WorkspaceID, v register.Version) error {
	return s.cfg.Store.SetRemote(id, func(r *workspace.Remote, w *api.WorkspaceVersion) {
		conflict := w.Conflict
		*w, r.Layers = *known(v), v.Layers
		w.Conflict = conflict
	})
}

// fetch restores the layers of a version. Their files belong to the user of sandboxes of this host.
func (s *Workspaces) fetch(ctx context.Context, v register.Version) error {
	for _, d := range v.Layers {
		err := s.cfg.Layers.Fetch(ctx, layer.Digest(d), workspace.Own)
		if k := api.KindOf(err); k == api.KindInvalid || k == api.KindNotFound {
			return api.Errorf(k, "version %d, which host %s has stored, cannot be restored: %w", v.Number, v.Host, err).
				WithHint("repair the archive of layers from a backup, or go back to the version before: remove the record of version %d from the archive", v.Number)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Read brings the last version here for a reader, unless this host is the writer or has something that is not stored. done is called when
// the files were read; they are not sealed before.
func (s *Workspaces) Read(ctx context.Context, id api.WorkspaceID) (done func(), err error) {
	done = func() {}
	if h, err := s.joinUnsealed(ctx, id); err != nil {
		return done, err
	} else if h != nil {
		return func() { s.leave(id, h) }, nil
	}
	c, err := s.lookup(id)
	if err != nil || c.Changed || s.cfg.Store.InUse(id) {
		return done, err
	}
	unlock, err := s.turns.Lock(ctx, string(id))
	if err != nil {
		return done, err
	}
	defer unlock()
	if s.isHeld(id) {
		return done, nil
	}
	if _, err := s.entry(ctx, c); err != nil {
		return done, about(c, err)
	}
	return done, about(c, s.bring(ctx, id))
}
