package durable

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace/shared"
)

// share creates a workspace that other hosts use too, or opens the one that another host shares under that name.
func (s *Service) share(ctx context.Context, account string, req api.CreateWorkspace, empty layer.Digest) (api.Workspace, error) {
	if req.Name == "" {
		return api.Workspace{}, api.Errorf(api.KindInvalid, "a workspace that hosts share needs a name: the other hosts find it by that")
	}
	return s.named(ctx, account, req.Name, func() (out api.Workspace, err error) {
		err = s.withShared(api.Workspace{Name: req.Name}, func(all *shared.Workspaces) error {
			n, added, err := all.Describe(ctx, account, req.Name, req.QuotaBytes, empty)
			if err == nil && !added && req.QuotaBytes > 0 && req.QuotaBytes != n.Quota {
				err = api.Errorf(api.KindExists, "another host shares workspace %s, with another quota", req.Name).
					WithHint("open it without a quota, and change the quota on this host: hortus workspace quota %s SIZE", req.Name)
			}
			if err == nil {
				out, err = s.cfg.Store.Make(ctx, n)
			}
			return err
		})
		return out, err
	})
}

// withShared calls do, unless this daemon cannot share workspaces.
func (s *Service) withShared(w api.Workspace, do func(all *shared.Workspaces) error) error {
	if s.cfg.Shared == nil {
		return api.Errorf(api.KindUnsupported, "workspace %s: this daemon has no archive of layers, which hosts that share a workspace need", Label(w)).
			WithHint("set daemon.layer-archive to a directory or an object store that all hosts use (docs/layers.md), and restart the daemon")
	}
	return do(s.cfg.Shared)
}

// Open prepares a workspace for a sandbox that is about to be created: of one that other hosts use too, this host becomes the writer and
// gets the last version. done is called when the sandbox was created, or could not be.
func (s *Service) Open(ctx context.Context, id api.WorkspaceID) (done func(), err error) {
	w, err := s.Row(ctx, id)
	if err != nil || w.Version == nil {
		return func() {}, err
	}
	err = s.withShared(w, func(all *shared.Workspaces) error {
		done, err = all.Open(ctx, id)
		return err
	})
	return done, err
}

// lastVersion returns the record of a workspace of which this host has the last version, or something newer, until done is called.
func (s *Service) lastVersion(ctx context.Context, id api.WorkspaceID) (w api.Workspace, done func(), err error) {
	done = func() {}
	w, err = s.Row(ctx, id)
	if err != nil || w.Version == nil || w.State == api.WorkspaceRemoved || s.cfg.Shared == nil {
		return w, done, err
	}
	done, err = s.cfg.Shared.Read(ctx, id)
	if api.KindOf(err) == api.KindNotFound { // removed by another host: what is here can be read
		err = nil
	}
	return w, done, err
}

// describe adds to the row of a workspace that other hosts use too what is true now.
func (s *Service) describe(w *api.Workspace) {
	if w.Version == nil || s.cfg.Shared == nil {
		return
	}
	c, err := s.cfg.Store.SharedCopy(w.ID)
	if err != nil || c == nil {
		return // it was removed meanwhile
	}
	v := *c.Workspace.Version
	v.Changed, v.Waiting = c.Changed, s.cfg.Shared.Waiting(w.ID)
	w.Version = &v
}
