package sandbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
)

// restoreTimeout bounds the start of a sandbox from a snapshot, the first look at
// all its bytes included.
const restoreTimeout = 5 * time.Minute

// hostTemplate is the template that is no snapshot.
const hostTemplate = "host"

// origin finds the snapshot that a template's name or a snapshot's id stands for;
// nil where it is neither, or where the account may not start from it: for an
// account that is as if it were not there.
func (m *Manager) origin(ctx context.Context, account, template string) (*api.Snapshot, error) {
	if template == hostTemplate || m.cfg.Snapshots == nil {
		return nil, nil
	}
	var s api.Snapshot
	var err error
	if id := api.SnapshotID(template); id.Valid() {
		s, err = m.cfg.Snapshots.Snapshot(ctx, id)
	} else {
		s, err = m.cfg.Snapshots.Template(ctx, account, template)
	}
	if api.KindOf(err) == api.KindNotFound || err == nil && !s.StartsFor(account) {
		return nil, nil
	}
	if err == nil && s.State != api.SnapshotReady {
		err = api.Errorf(api.KindConflict, "snapshot %s is %s", s.ID, s.State)
	}
	if err == nil && s.Paused {
		err = api.Errorf(api.KindConflict, "snapshot %s is that of the paused sandbox %s, which alone goes on from it", s.ID, s.Sandbox).
			WithHint("hortus sandbox resume %s", s.Sandbox)
	}
	return &s, err
}

// resolveFrom makes out a request for a sandbox from a snapshot.
func (m *Manager) resolveFrom(ctx context.Context, req *api.CreateSandbox, w *wish, s *api.Snapshot) error {
	name, by := req.Isolation, s.Image.Backend
	if name != "" && name != Auto && name != by {
		return api.Errorf(api.KindConflict, "snapshot %s was made by the %s backend, and cannot start on %s", s.ID, by, name)
	}
	var err error
	if w.backend, w.report, _, err = m.Choose(ctx, by); err != nil {
		return err
	}
	if a, ok := w.report.Has(api.CapIsolated); !ok && name != by {
		return unisolated(ctx, by, a)
	}
	w.why = "what made its snapshot"
	if err := m.restorable(ctx, w.backend, *s); err != nil {
		return err
	}
	if w.limits, w.asked, w.missing, err = resolveLimits(req.Limits, s.Limits, w.report); err != nil {
		return err
	}
	if w.limits.MemoryBytes != s.Limits.MemoryBytes || w.limits.DiskBytes != s.Limits.DiskBytes {
		return api.Errorf(api.KindInvalid, "snapshot %s was saved with limits of %d bytes of memory and %d of disk, which are its sandboxes' too",
			s.ID, s.Limits.MemoryBytes, s.Limits.DiskBytes)
	}
	w.layers, w.snapshot = layersOf(*s), s
	return nil
}

func layersOf(s api.Snapshot) []layer.Digest {
	out := make([]layer.Digest, len(s.Layers))
	for i, d := range s.Layers {
		out[i] = layer.Digest(d)
	}
	return out
}

// restorable says whether a snapshot can start here now: on the same kernel, guest
// and processor, and over the same files of this machine.
func (m *Manager) restorable(ctx context.Context, b Backend, s api.Snapshot) error {
	r, ok := b.(Restorer)
	if !ok {
		return api.Errorf(api.KindUnsupported, "the %s backend starts nothing from a snapshot (capability %s)", b.Name(), api.CapCheckpoint)
	}
	here, err := r.Mark(ctx, s.Kind)
	if err != nil {
		return err
	}
	if differ := differences(s.Image, here); differ != "" {
		return api.Errorf(api.KindConflict, "snapshot %s cannot start here: %s", s.ID, differ).WithHint("take it again on this machine and build")
	}
	for _, d := range s.Layers {
		if !strings.HasPrefix(d, "host-") {
			continue
		}
		// It shows this machine's own programs, which may have changed since.
		now, err := m.cfg.Templates.Layers(ctx, hostTemplate)
		if err != nil {
			return err
		}
		if !slices.Contains(now, layer.Digest(d)) {
			return api.Errorf(api.KindConflict, "snapshot %s stands on this machine's programs as they were when it was taken (%.17s); they have changed since", s.ID, d).
				WithHint("take it again")
		}
	}
	return nil
}

// differences names what of an image's mark is not as it is here.
func differences(made, here api.ImageMark) string {
	var out []string
	for _, f := range []struct{ what, made, here string }{
		{"backend", made.Backend, here.Backend}, {"kernel", made.Kernel, here.Kernel},
		{"guest", made.Guest, here.Guest}, {"processor features", made.CPU, here.CPU},
	} {
		if f.made != f.here {
			out = append(out, fmt.Sprintf("it was made with %s %.80q, and here is %.80q", f.what, f.made, f.here))
		}
	}
	return strings.Join(out, "; ")
}

// restore starts a guest from a stored snapshot. The guest waits for its claim.
func (m *Manager) restore(ctx context.Context, id api.SnapshotID, spec Spec) (Prepared, error) {
	ctx, cancel := context.WithTimeout(ctx, restoreTimeout)
	defer cancel()
	s, dir, done, err := m.cfg.Snapshots.Use(ctx, id)
	if err != nil {
		return nil, err
	}
	defer done()
	for _, b := range m.cfg.Backends {
		if r, ok := b.(Restorer); ok && b.Name() == s.Image.Backend {
			return r.Restore(ctx, spec, dir)
		}
	}
	return nil, api.Errorf(api.KindUnsupported, "this build starts nothing from what the %s backend saved", s.Image.Backend)
}
