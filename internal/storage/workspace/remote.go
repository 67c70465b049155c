package workspace

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/beneath"
)

// Remote is what the record of a workspace has about other hosts that share it.
type Remote struct {
	// ID names it on all hosts.
	ID api.WorkspaceID `json:"id"`
	// Copy names the copy of this host.
	Copy string `json:"copy"`
	// Leased is true if this copy may have the lease of its only writer.
	Leased bool `json:"leased,omitempty"`
	// Layers are those of its Version.
	Layers []string `json:"layers"`
}

// Copy is the state of a workspace that hosts share, on this host.
type Copy struct {
	Remote
	Workspace api.Workspace
	// Changed is true if something was written since the version.
	Changed bool
}

// SharedCopy returns the state of a workspace that hosts share; nil if it is not shared. While a sandbox uses it, the state may be that
// of a moment ago.
func (s *Store) SharedCopy(id api.WorkspaceID) (*Copy, error) {
	d, err := s.openDir(id)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	rec, err := readRecord(d, id)
	if err != nil || rec.Remote == nil {
		return nil, err
	}
	c := &Copy{Remote: *rec.Remote, Workspace: rec.Workspace, Changed: !slices.Equal(rec.Layers, rec.Remote.Layers)}
	if c.Changed {
		return c, nil
	}
	upper, err := beneath.OpenDir(int(d.Fd()), Upper)
	if err == nil {
		defer unix.Close(upper)
		err = beneath.Names(upper, func(string) error { return errWritten })
	}
	if c.Changed = errors.Is(err, errWritten); err != nil && !c.Changed {
		return nil, api.Errorf(api.KindInternal, "workspace %s: %w", id, err)
	}
	return c, nil
}

var errWritten = errors.New("something was written")

// InUse reports whether a sandbox of this host has a workspace, or this process reads its files.
func (s *Store) InUse(id api.WorkspaceID) bool {
	s.leases.mu.Lock()
	l := s.leases.all[id]
	s.leases.mu.Unlock()
	if l != nil {
		return true
	}
	_, alive := holderAlive([]byte((&Lease{s: s, rec: record{Workspace: api.Workspace{ID: id}}}).Holder()))
	return alive
}

// SetRemote changes what is recorded of a workspace that hosts share, also while a sandbox of this process has it.
func (s *Store) SetRemote(id api.WorkspaceID, set func(r *Remote, v *api.WorkspaceVersion)) error {
	recorded, err := s.recording.Lock(context.Background(), string(id))
	if err != nil {
		return err
	}
	defer recorded()
	l, release := s.leases.hold(id)
	if l == nil {
		if l, _, _, err = s.lockNow(id); err != nil {
			return err
		}
		release = func() { unlock(l.dir) }
	}
	defer release()
	rec, err := readRecord(l.dir, id) // that of a lease may be older
	if err == nil && rec.Remote == nil {
		err = api.Errorf(api.KindInvalid, "workspace %s is not shared between hosts", id)
	}
	if err != nil {
		return err
	}
	v := *rec.Version
	set(rec.Remote, &v)
	return l.rewrite(rec, func(w *api.Workspace) { w.Version = &v })
}

// Reset replaces the files of a workspace that nobody uses by layers, and what is recorded of other hosts. What was written over the
// former layers is removed. A crash leaves the former files or the new ones.
func (s *Store) Reset(ctx context.Context, id api.WorkspaceID, layers []string, v api.WorkspaceVersion) error {
	l, err := s.Lease(ctx, id)
	if err != nil {
		return err
	}
	defer l.Release()
	if n := len(layers); n == 0 || n > MaxLayers || l.rec.Remote == nil {
		return api.Errorf(api.KindInvalid, "workspace %s cannot be reset to %d layers", id, n)
	}
	release, err := s.claim(layers)
	if err != nil {
		return err
	}
	defer release()
	rec := l.rec
	remote := *rec.Remote
	remote.Layers = layers
	rec.Layers, rec.Shared, rec.Below, rec.Version, rec.Remote = layers, 0, Usage{}, &v, &remote
	old, err := s.replace(l, rec)
	if err != nil {
		return s.diskError(err, "reset workspace "+string(id))
	}
	s.later(old, func() error { return s.remove(s.ctx, old) })
	return nil
}
