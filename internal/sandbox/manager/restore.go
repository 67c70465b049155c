package manager

import (
	"context"
	"hortus.dev/internal/sandbox"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/choice"
	"hortus.dev/internal/storage/layer"
)

// restoreTimeout bounds the start of a sandbox from a snapshot, the first look at
// all its bytes included.
const restoreTimeout = 5 * time.Minute

// hostTemplate is the template that is no snapshot.
const hostTemplate = "host"

// origin returns the snapshot with a template's name or a snapshot's ID. It returns nil if there is
// none, or if the account may not start from it: for that account it does not exist.
func (c *planner) origin(ctx context.Context, account, template string) (*api.Snapshot, error) {
	if template == hostTemplate || c.cfg.Snapshots == nil {
		return nil, nil
	}
	var s api.Snapshot
	var err error
	if id := api.SnapshotID(template); id.Valid() {
		s, err = c.cfg.Snapshots.Snapshot(ctx, id)
	} else {
		s, err = c.cfg.Snapshots.Template(ctx, account, template)
	}
	if api.KindOf(err) == api.KindNotFound || err == nil && !s.StartsFor(account) {
		return nil, nil
	}
	if err == nil && s.State != api.SnapshotReady {
		err = api.Errorf(api.KindConflict, "snapshot %s is %s", s.ID, s.State)
	}
	if err == nil && s.Paused {
		err = api.Errorf(api.KindConflict, "snapshot %s belongs to the paused sandbox %s; only that sandbox can use it", s.ID, s.Sandbox).
			WithHint("hortus sandbox resume %s", s.Sandbox)
	}
	return &s, err
}

func layersOf(s api.Snapshot) []layer.Digest {
	out := make([]layer.Digest, len(s.Layers))
	for i, d := range s.Layers {
		out[i] = layer.Digest(d)
	}
	return out
}

// restorable reports whether a snapshot can start here now: on the same kernel, guest
// and processor, and over the same files of this machine.
func (c *planner) restorable(ctx context.Context, b sandbox.Backend, s api.Snapshot) error {
	if !b.Capabilities().Save {
		return api.Errorf(api.KindUnsupported, "the %s backend cannot start sandboxes from a snapshot (capability %s)", b.Name(), api.CapCheckpoint)
	}
	here, err := b.Mark(ctx, s.Kind)
	if err != nil {
		return err
	}
	if differ := choice.Differences(s.Image, here); differ != "" {
		return api.Errorf(api.KindConflict, "snapshot %s is incompatible with this host: %s", s.ID, differ).WithHint("take a new snapshot on this machine with this build")
	}
	for _, d := range s.Layers {
		if !strings.HasPrefix(d, "host-") {
			continue
		}
		// It shows this machine's own programs, which may have changed since.
		now, err := c.cfg.Templates.Layers(ctx, hostTemplate)
		if err != nil {
			return err
		}
		if !slices.Contains(now, layer.Digest(d)) {
			return api.Errorf(api.KindConflict, "snapshot %s depends on programs of this machine that have changed since it was taken (%.17s)", s.ID, d).
				WithHint("take a new snapshot")
		}
	}
	return nil
}

// restoreAndClaim starts a sandbox from a saved state. It gives the machine also with an
// error, if there is one.
func (c saves) restoreAndClaim(ctx context.Context, l *live, restore func(context.Context, sandbox.Spec) (sandbox.Machine, error)) (sandbox.Machine, error) {
	spec := l.spec()
	m, err := restore(ctx, spec)
	if err != nil {
		return nil, err
	}
	return m, m.Claim(ctx, spec.Env)
}

// restore starts a guest from a stored snapshot. The guest waits for its claim.
func (c saves) restore(ctx context.Context, id api.SnapshotID, spec sandbox.Spec) (sandbox.Machine, error) {
	ctx, cancel := context.WithTimeout(ctx, restoreTimeout)
	defer cancel()
	s, dir, done, err := c.cfg.Snapshots.Use(ctx, id)
	if err != nil {
		return nil, err
	}
	defer done()
	for _, b := range c.cfg.Backends {
		if b.Name() == s.Image.Backend {
			return b.Restore(ctx, spec, dir)
		}
	}
	return nil, api.Errorf(api.KindUnsupported, "this build does not include the %s backend, which saved it", s.Image.Backend)
}
