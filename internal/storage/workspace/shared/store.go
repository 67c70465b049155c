package shared

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/storage/workspace/register"
)

// Store stores what was written in a workspace that nobody uses, and returns when it is in the archive. Another host may use the
// workspace then. The result is the layer that was made, unless one was made before.
//
// Errors: as for Open, KindConflict while somebody uses the workspace, and KindUnsupported for files that an archive cannot hold.
func (s *Workspaces) Store(ctx context.Context, id api.WorkspaceID) (sealed workspace.Sealed, err error) {
	h, err := s.open(ctx, id)
	if err != nil {
		return sealed, err
	}
	s.mu.Lock()
	h.opening--
	s.mu.Unlock()
	return s.store(ctx, id, h)
}

// store stores a workspace and releases its lease, unless it is in use.
func (s *Workspaces) store(ctx context.Context, id api.WorkspaceID, h *hold) (sealed workspace.Sealed, err error) {
	unlock, err := s.turns.Lock(ctx, string(id))
	if err != nil {
		return sealed, err
	}
	defer unlock()
	c, err := s.lookup(id)
	if api.KindOf(err) == api.KindNotFound { // it was removed
		s.drop(id, h)
		return sealed, nil
	}
	if err != nil {
		return sealed, err
	}
	s.mu.Lock()
	over := s.held[id] != h
	s.mu.Unlock()
	if over {
		return sealed, nil
	}
	if err = s.retake(ctx, id, c, h); err == nil {
		sealed, err = s.save(ctx, id, h)
	}
	if err == nil {
		err = s.release(ctx, id, h)
	}
	if _, is := errors.AsType[lostError](err); !is && api.KindOf(err) == api.KindConflict {
		return sealed, about(c, err) // somebody on this host uses it, and its end is noticed
	}
	return sealed, s.ended(ctx, id, c, h, err)
}

// errInUse is the error for files that cannot be sealed now.
var errInUse = api.Errorf(api.KindConflict, "it is in use: only one writer at a time").WithHint("end the sandbox that uses it")

// retake takes a lease again that an earlier daemon took, in the turn of the caller.
func (s *Workspaces) retake(ctx context.Context, id api.WorkspaceID, c *workspace.Copy, h *hold) error {
	s.mu.Lock()
	over := s.held[id] != h || h.lease != nil
	s.mu.Unlock()
	if over {
		return nil
	}
	l, err := s.take(ctx, id, c)
	if err == nil {
		s.mu.Lock()
		h.lease = &l
		s.mu.Unlock()
	}
	return err
}

// ended notes how a store ended. One that lost against another host is over; others are tried again.
func (s *Workspaces) ended(ctx context.Context, id api.WorkspaceID, c *workspace.Copy, h *hold, err error) error {
	if err == nil || ctx.Err() == nil && !s.over(id, c, h, err) {
		s.mu.Lock()
		defer s.mu.Unlock()
		h.stores.note(s.logger(id, c), err, "waiting to store what was written in a shared workspace; no other host can use it until then",
			"what waited for the archive of layers is stored")
	}
	return about(c, err)
}

// over ends what this host holds if another host was faster, and reports whether that is so.
func (s *Workspaces) over(id api.WorkspaceID, c *workspace.Copy, h *hold, err error) bool {
	if _, is := errors.AsType[lostError](err); !is {
		return false
	}
	s.logger(id, c).Error("what was written in a shared workspace is kept on this host and not stored", "error", err)
	s.drop(id, h)
	_ = s.leased(id, false) // otherwise the next daemon finds out
	return true
}

func (s *Workspaces) logger(id api.WorkspaceID, c *workspace.Copy) *slog.Logger {
	return s.log.With("workspace", id, "name", c.Workspace.Name)
}

// drop forgets a workspace that is not here any more.
func (s *Workspaces) drop(id api.WorkspaceID, h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[id] == h {
		delete(s.held, id)
	}
}

// save makes a version of what was written, unless somebody uses the workspace.
func (s *Workspaces) save(ctx context.Context, id api.WorkspaceID, h *hold) (workspace.Sealed, error) {
	sealed, err := s.seal(ctx, id, h)
	if err != nil {
		return sealed, err
	}
	if err := s.pass("sealed"); err != nil {
		return sealed, err
	}
	c, err := s.lookup(id)
	if err != nil {
		return sealed, err
	}
	if slices.Equal(c.Workspace.Layers, c.Layers) {
		return sealed, nil
	}
	for _, d := range c.Workspace.Layers {
		if err := s.cfg.Layers.Archive(ctx, layer.Digest(d)); err != nil {
			return sealed, err
		}
	}
	if err := s.pass("archived"); err != nil {
		return sealed, err
	}
	if _, err := s.entry(ctx, c); err != nil {
		return sealed, err
	}
	if err := s.renewed(ctx, id, h); err != nil {
		return sealed, lost(err)
	}
	v, err := s.cfg.Register.Append(ctx, s.leaseOf(h), register.Version{Number: c.Workspace.Version.Number + 1, Layers: c.Workspace.Layers, Bytes: sealed.Usage.Bytes})
	if api.KindOf(err) == api.KindConflict && own(c, v) {
		// A daemon of this host stored it, and was killed before it was recorded.
		v, err = s.cfg.Register.Append(ctx, s.leaseOf(h), register.Version{Number: v.Number + 1, Layers: c.Workspace.Layers, Bytes: sealed.Usage.Bytes})
	}
	if err != nil {
		return sealed, lost(err)
	}
	if err := s.pass("appended"); err != nil {
		return sealed, err
	}
	return sealed, s.stored(id, v)
}

// seal makes a layer of what was written, unless somebody uses the workspace or is about to.
func (s *Workspaces) seal(ctx context.Context, id api.WorkspaceID, h *hold) (sealed workspace.Sealed, err error) {
	unlock, err := s.files.Lock(ctx, string(id))
	if err != nil {
		return sealed, err
	}
	defer unlock()
	s.mu.Lock()
	opening := h.opening
	s.mu.Unlock()
	if opening > 0 || s.cfg.Store.InUse(id) {
		return sealed, errInUse
	}
	return s.cfg.Store.Seal(ctx, id)
}

// release releases the lease, unless somebody uses the workspace or has something that is not stored.
func (s *Workspaces) release(ctx context.Context, id api.WorkspaceID, h *hold) error {
	unlock, err := s.turns.Lock(ctx, "renew "+string(id))
	if err != nil {
		return err
	}
	defer unlock()
	c, err := s.lookup(id)
	if err != nil || c.Changed {
		return err
	}
	s.mu.Lock()
	free := h.opening == 0
	if free {
		delete(s.held, id) // who opens it now waits for our turn
	}
	s.mu.Unlock()
	if !free {
		return nil
	}
	if !s.cfg.Store.InUse(id) {
		if err = s.cfg.Register.Release(ctx, s.leaseOf(h)); err == nil {
			return s.leased(id, false)
		}
	}
	s.mu.Lock() // it is still ours
	defer s.mu.Unlock()
	s.held[id] = h
	return err
}

func (s *Workspaces) leaseOf(h *hold) register.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *h.lease
}

// renew renews the lease of a workspace once, or takes the one of an earlier daemon again.
func (s *Workspaces) renew(id api.WorkspaceID, h *hold) {
	defer func() {
		s.mu.Lock()
		h.renewing = false
		s.mu.Unlock()
	}()
	c, err := s.lookup(id)
	if err != nil {
		return // a store says why
	}
	s.mu.Lock()
	earlier := h.lease == nil
	s.mu.Unlock()
	if earlier {
		var unlock func()
		if unlock, err = s.turns.Lock(s.ctx, string(id)); err == nil {
			err = s.retake(s.ctx, id, c, h)
			unlock()
		}
	} else {
		err = lost(s.renewed(s.ctx, id, h))
	}
	if s.ctx.Err() != nil || s.over(id, c, h, err) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h.renewals.note(s.logger(id, c), err, "cannot renew the lease of a shared workspace; its sandboxes continue", "the lease of a shared workspace is renewed again")
}

// renewed renews the lease; KindConflict if another host has it.
func (s *Workspaces) renewed(ctx context.Context, id api.WorkspaceID, h *hold) error {
	unlock, err := s.turns.Lock(ctx, "renew "+string(id))
	if err != nil {
		return err
	}
	defer unlock()
	s.mu.Lock()
	l, over := h.lease, s.held[id] != h
	s.mu.Unlock()
	if over || l == nil {
		return nil
	}
	next, err := s.cfg.Register.Renew(ctx, *l)
	s.mu.Lock()
	defer s.mu.Unlock()
	h.lease = &next
	return err
}
