package jail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/backend/jail/rundir"
	"hortus.dev/internal/backend/link"
	"hortus.dev/internal/platform/proc"
	"hortus.dev/internal/sandbox"
)

// adoptTimeout is the maximum duration of one adoption.
const adoptTimeout = 20 * time.Second

// Adopt takes over a machine whose daemon has ended. See sandbox.Backend.
//
// That the recorded process is still the one that was started is proven three times: by its
// start time, by its control groups, and by the socket in the run directory, on which it
// listens.
func (b *Backend) Adopt(ctx context.Context, id api.SandboxID) (_ sandbox.Adopted, err error) {
	var none sandbox.Adopted
	ctx, cancel := context.WithTimeout(ctx, adoptTimeout)
	defer cancel()
	r, err := b.readRecord(id)
	if err != nil {
		return none, err
	}
	// What this daemon took over is given up if a later step fails; the machine keeps
	// running.
	var undo cleanup
	defer func() {
		if err != nil {
			undo.run()
		}
	}()
	m := newMachine(b, id, r.Limits)
	m.image, m.adopted = r.Image, true
	ended := api.Errorf(api.KindNotFound, "the first process of sandbox %s has ended", id)
	if m.watch, err = proc.Open(r.PID); errors.Is(err, unix.ESRCH) {
		return none, ended
	} else if err != nil {
		return none, api.Errorf(api.KindInternal, "sandbox %s: %w", id, err)
	}
	undo.add(m.watch.Close)
	if m.proc, err = os.FindProcess(r.PID); err != nil {
		return none, ended
	}
	undo.add(func() { m.proc.Release() })
	// The descriptors hold the pid: from here on the check stays true.
	if !r.Process().Alive() || m.watch.Ended() {
		return none, ended
	}
	if m.group, err = groupOf(r); err != nil {
		return none, api.Errorf(api.KindConflict, "sandbox %s: %w", id, err)
	}
	if r.Range >= 0 {
		if m.ids, err = b.ids.Retake(ctx, r.Range, r.Process()); err != nil {
			return none, api.Errorf(api.KindConflict, "sandbox %s: its range of ids: %w", id, err)
		}
		undo.add(func() { b.ids.Leave(m.ids) })
	}
	undo.add(func() { m.layers.Release() })
	if m.layers, err = b.mounter.LeaseAgain(r.Layers); err != nil {
		return none, err
	}
	m.digests = r.Layers
	if b.cfg.Kernel == nil {
		if err = m.from.adopt(b, r); err != nil {
			return none, err
		}
	}
	if m.workdir, err = b.mounter.Reattach(ctx, r.Workspace, r.PID); err != nil {
		return none, err
	}
	undo.add(m.workdir.Leave, m.disk.close)
	dir := "." // the keeper's root is the disk
	if b.cfg.Kernel == nil {
		dir = "dev/shm" // a directory of the disk over which no process inside can mount
	}
	m.disk.set(r.Disk.Open(r.PID, dir))
	l := link.New(filepath.Join(m.dir, initns.SocketName), r.PID)
	c, err := l.Dial(ctx)
	if err != nil {
		return none, api.Errorf(api.KindConflict, "sandbox %s: %w", id, err)
	}
	c.Close()
	if m.paused, err = m.group.Frozen(); err != nil {
		return none, api.Errorf(api.KindInternal, "sandbox %s: %w", id, err)
	}
	if err = m.group.Complete(ctx, m.paused); err != nil { // a pause or resume may be incomplete
		return none, api.Errorf(api.KindOf(err), "sandbox %s: %w", id, err)
	}
	l.Pause(m.paused)
	paused := m.paused
	m.run(l)
	if b.cfg.Kernel != nil && !paused {
		b.thawOwn(ctx, id)
	}
	return sandbox.Adopted{Machine: m, Spec: r.Spec(), Paused: paused}, nil
}

// readRecord reads the record of a machine that this backend could adopt.
func (b *Backend) readRecord(id api.SandboxID) (*rundir.Record, error) {
	if !id.Valid() {
		return nil, api.Errorf(api.KindInvalid, "sandbox id %q is malformed", string(id))
	}
	r, err := rundir.Read(b.rundir(id), id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, api.Errorf(api.KindNotFound, "sandbox %s has no record of a running machine", id)
	case err != nil:
		return nil, api.Errorf(api.KindConflict, "sandbox %s: %w", id, err)
	case r.Backend != b.Name() || (r.Range >= 0) != b.Root():
		return nil, api.Errorf(api.KindConflict, "sandbox %s was started by the %s backend of another user", id, r.Backend)
	}
	if boot, err := proc.BootID(); err != nil || boot != r.Boot {
		return nil, api.Errorf(api.KindNotFound, "sandbox %s ended when the host was rebooted", id)
	}
	return r, nil
}

// groupOf finds the control groups of a machine, and checks that its process is in them.
func groupOf(r *rundir.Record) (*cgroup.Group, error) {
	g, err := cgroup.At(string(r.ID), r.Groups)
	if err != nil {
		return nil, err
	}
	in, err := g.Holds(r.PID)
	if err == nil && !in {
		err = fmt.Errorf("process %d is not in its control groups", r.PID)
	}
	return g, err
}
