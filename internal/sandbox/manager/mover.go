package manager

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/choice"
	"hortus.dev/internal/sandbox/life"
	"hortus.dev/internal/storage/layer"
)

// Mover moves sandboxes to daemons on other hosts that have the same rows and the same archive. It does not know them: who calls Move
// changes the owner of the row.
type Mover struct {
	table     *table
	lifecycle *lifecycle
	pauser    *Pauser
	sandboxes *Sandboxes
	origins   *origins
	chooser   *choice.Chooser
	rows      sandbox.Rows
	owner     api.OwnerID
}

// Restores lists what the saved states must be of that this host can restore, as digests: of a backend with its kernel, guest and
// processor, and of this host's own programs.
func (m *Mover) Restores(ctx context.Context) []string {
	var out []string
	for _, b := range m.origins.backends {
		if !b.Capabilities().Save {
			continue
		}
		for _, kind := range []api.SnapshotKind{api.SnapshotMemory, api.SnapshotFiles} {
			if mark, err := b.Mark(ctx, kind); err == nil {
				out = append(out, restores(mark))
			}
		}
	}
	if own, err := m.origins.templates.Layers(ctx, hostTemplate); err == nil {
		out = append(out, ofHost(own)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// restores names what an image needs of its host.
func restores(m api.ImageMark) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", m.Kernel, m.Guest, m.CPU))
	return m.Backend + "-" + hex.EncodeToString(sum[:8])
}

// ofHost returns the layers of the programs of a host.
func ofHost(all []layer.Digest) (out []string) {
	for _, d := range all {
		if strings.HasPrefix(string(d), api.HostPrograms) {
			out = append(out, string(d[:min(len(d), len(api.HostPrograms)+16)]))
		}
	}
	return out
}

// Needs returns what another host must be able to restore, as Restores lists it, if it is to continue a sandbox of this daemon, or the
// reason why the sandbox cannot be moved now. KindConflict is a reason that passes.
func (m *Mover) Needs(ctx context.Context, id api.SandboxID) ([]string, error) {
	in, row, err := m.table.find(ctx, id)
	if err != nil {
		return nil, err
	}
	if in == nil {
		if !suspended(row) || row.Owner != m.owner {
			return nil, ended(row)
		}
		store, err := m.origins.store()
		if err != nil {
			return nil, err
		}
		s, err := store.Snapshot(ctx, row.Snapshot)
		if err == nil && s.State != api.SnapshotReady {
			err = api.Errorf(api.KindUnsupported, "its snapshot is %s%s", s.State, because(s.Reason))
		}
		return append(ofHost(layersOf(s)), restores(s.Image)), err
	}
	row = in.Row()
	switch state := in.State(); {
	case state.Final() || state == life.Ending || state == life.Leaving:
		return nil, refused(in)
	case state == life.Queued || state == life.Starting || state == life.Restoring:
		return nil, api.Errorf(api.KindConflict, "it is %s", state.Words())
	case row.Workspace != "" || in.workspace != nil:
		return nil, api.Errorf(api.KindUnsupported, "its workspace is on the disk of this node")
	case row.Held:
		return nil, api.Errorf(api.KindUnsupported, "it lives as long as the connection of its client to this node")
	}
	if a, saves := m.chooser.Report(ctx, in.backend).Has(api.CapCheckpoint); !saves {
		return nil, api.Errorf(api.KindUnsupported, "the %s backend cannot save its memory: %s", in.backend.Name(), a.Reason)
	}
	mark, err := in.backend.Mark(ctx, api.SnapshotMemory)
	return append(ofHost(in.layers), restores(mark)), err
}

// backWithin bounds how long a sandbox that could not be moved may take to continue here.
const backWithin = 2 * time.Minute

// Move pauses a sandbox to disk, unless it is paused there, stores its state in the archive, and calls give, which makes another daemon the owner of the row
// that it gets. Until give returns nothing can resume the sandbox here. The state that it has then is the other daemon's to resume:
//
//	row, since, err := a.Mover.Move(ctx, id, nil, func(ctx context.Context, row api.Sandbox) error { return rows.MoveSandbox(ctx, row, b) })
//	if err == nil && row.Moving {
//		_, err = b.Sandboxes.Resume(ctx, id) // on the other host
//	}
//
// It returns the row as it was given away, which is Moving if the sandbox is to be resumed, and since when it does not run: zero if it was paused. After an error the sandbox is this daemon's: it runs again if it ran before, and is paused to disk if it was paused. If leave, which may be nil, returns true then, it stays paused, to be resumed by
// who takes it over. If the error of give left open whether the owner has changed, Move finds out before the sandbox continues here, and there is no error if it has.
func (m *Mover) Move(ctx context.Context, id api.SandboxID, leave func() bool, give func(context.Context, api.Sandbox) error) (row api.Sandbox, since time.Time, err error) {
	store, err := m.origins.store()
	if err != nil {
		return row, since, err
	}
	if _, busy := m.pauser.moving.LoadOrStore(id, true); busy {
		return row, since, api.Errorf(api.KindConflict, "sandbox %s is being moved already", id)
	}
	defer m.pauser.moving.Delete(id)
	if row, since, err = m.rest(ctx, id); err != nil {
		return row, since, err
	}
	if _, err = store.Archive(ctx, row.Snapshot); err == nil {
		err = m.give(ctx, &row, give)
	}
	if err == nil || leave != nil && leave() {
		return row, since, err
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), backWithin)
	defer cancel()
	moved, berr := m.back(late, &row)
	if moved {
		return row, since, nil
	}
	return row, since, errors.Join(err, berr)
}

// rest pauses a sandbox to disk.
func (m *Mover) rest(ctx context.Context, id api.SandboxID) (row api.Sandbox, since time.Time, err error) {
	in, row, err := m.table.find(ctx, id)
	switch {
	case err != nil || in == nil && suspended(row):
		return row, since, err
	case in == nil:
		return row, since, ended(row)
	}
	runs := in.State() != life.Paused
	if runs {
		since = time.Now()
	} else if err := m.lifecycle.resume(ctx, in); err != nil { // its memory is saved as that of a running one
		return in.Row(), since, err
	}
	row, err = m.pauser.suspend(ctx, id, pausing{moving: runs})
	if err != nil && !runs && in.State() == life.Running { // as it was
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
		defer cancel()
		_, perr := m.sandboxes.Pause(late, id)
		err = errors.Join(err, perr)
	}
	return row, since, err
}

// give calls f while no caller can resume the sandbox.
func (m *Mover) give(ctx context.Context, row *api.Sandbox, f func(context.Context, api.Sandbox) error) error {
	in, err := m.pauser.take(ctx, *row, nil, life.Restoring)
	if err != nil {
		return err
	}
	defer m.pauser.untake(in)
	*row = in.Row()
	return f(ctx, *row)
}

// back has a sandbox that ran continue here. The row is stored first: a change of its owner that is still on its way fails then. moved is true if the change
// came first.
func (m *Mover) back(ctx context.Context, row *api.Sandbox) (moved bool, err error) {
	in, err := m.pauser.take(ctx, *row, nil, life.Restoring)
	if err == nil {
		in.Edit(func(row *api.Sandbox) { row.Moving = false })
		err = m.lifecycle.store(ctx, in)
		m.pauser.untake(in)
	}
	if err != nil {
		now, rerr := m.rows.Sandbox(ctx, row.ID)
		return rerr == nil && now.Owner != m.owner, err
	}
	ran := row.Moving
	row.Moving = false
	if !ran {
		return false, nil
	}
	m.pauser.moving.Delete(row.ID)
	*row, err = m.pauser.resumeFromDisk(ctx, *row, 0)
	return false, err
}
