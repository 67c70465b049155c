package manager

import (
	"context"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/choice"
	"hortus.dev/internal/storage/layer"
)

// origins has what sandboxes start from: templates, and saved states.
type origins struct {
	templates sandbox.Templates
	snapshots sandbox.Snapshots // nil if nothing can be saved
	backends  []sandbox.Backend
}

// restoreTimeout bounds the start of a sandbox from a snapshot, the first look at
// all its bytes included.
const restoreTimeout = 5 * time.Minute

// hostTemplate is the template that is no snapshot.
const hostTemplate = "host"

// store returns the store of saved states, or an error if there is none.
func (o *origins) store() (sandbox.Snapshots, error) {
	if o.snapshots == nil {
		return nil, api.Errorf(api.KindUnsupported, "this daemon has no snapshot store")
	}
	return o.snapshots, nil
}

// origin returns the snapshot with a template's name or a snapshot's ID. It returns nil if there is
// none, or if the account may not start from it: for that account it does not exist.
func (o *origins) origin(ctx context.Context, account, template string) (*api.Snapshot, error) {
	if template == hostTemplate || o.snapshots == nil {
		return nil, nil
	}
	var s api.Snapshot
	var err error
	if id := api.SnapshotID(template); id.Valid() {
		s, err = o.snapshots.Snapshot(ctx, id)
	} else {
		s, err = o.snapshots.Template(ctx, account, template)
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
func (o *origins) restorable(ctx context.Context, b sandbox.Backend, s api.Snapshot) error {
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
		same, err := o.templates.Shows(layer.Digest(d))
		if same { // its tree may be missing on a machine with the same files
			_, err = o.templates.Layers(ctx, hostTemplate)
		}
		if err != nil {
			return err
		}
		if !same {
			return api.Errorf(api.KindConflict, "snapshot %s depends on programs of the machine where it was taken, which have changed or are others here (%.17s)", s.ID, d).
				WithHint("take a new snapshot; to start it on other machines, take it of a sandbox with a container image (--template)")
		}
	}
	return nil
}

// restoreAndClaim starts a sandbox from a saved state. It gives the machine also with an
// error, if there is one.
func restoreAndClaim(ctx context.Context, in *instance, restore func(context.Context, sandbox.Spec) (sandbox.Machine, error)) (sandbox.Machine, error) {
	spec := in.spec()
	m, err := restore(ctx, spec)
	if err != nil {
		return nil, err
	}
	return m, m.Claim(ctx, spec.Env)
}

// restore starts a guest from a stored snapshot. The guest waits for its claim.
func (o *origins) restore(ctx context.Context, id api.SnapshotID, spec sandbox.Spec) (sandbox.Machine, error) {
	ctx, cancel := context.WithTimeout(ctx, restoreTimeout)
	defer cancel()
	s, dir, done, err := o.snapshots.Use(ctx, id)
	if err != nil {
		return nil, err
	}
	defer done()
	for _, b := range o.backends {
		if b.Name() == s.Image.Backend {
			return b.Restore(ctx, spec, dir)
		}
	}
	return nil, api.Errorf(api.KindUnsupported, "this build does not include the %s backend, which saved it", s.Image.Backend)
}
