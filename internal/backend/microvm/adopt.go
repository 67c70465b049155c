package microvm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/internal/backend/leased"
	"hortus.dev/internal/platform/proc"
	"hortus.dev/internal/sandbox"
)

// read reads the record of a machine.
func (b *Backend) read(id api.SandboxID) (r record, spec sandbox.Spec, err error) {
	text, err := os.ReadFile(filepath.Join(b.rundir(id), recordFile))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err == nil {
		err = json.Unmarshal(r.Spec, &spec)
	}
	if err == nil && (spec.ID != id || r.PID.PID <= 1) {
		err = errors.New("it is that of another machine")
	}
	return r, spec, err
}

// memoryFile is the descriptor of QEMU that is the machine's memory: see qemu.Machine.
const memoryFile = 3

// adoptTimeout is the maximum wait for the machine to answer.
const adoptTimeout = 30 * time.Second

// Adopt implements sandbox.Backend.
func (b *Backend) Adopt(ctx context.Context, id api.SandboxID) (_ sandbox.Adopted, err error) {
	var none sandbox.Adopted
	if !id.Valid() {
		return none, api.Errorf(api.KindInvalid, "sandbox id %q is malformed", string(id))
	}
	r, spec, err := b.read(id)
	if errors.Is(err, fs.ErrNotExist) {
		return none, api.Errorf(api.KindNotFound, "sandbox %s has no machine", id)
	}
	if err != nil {
		return none, api.Errorf(api.KindConflict, "the record of the machine of sandbox %s: %w", id, err)
	}
	if !r.PID.Alive() {
		return none, api.Errorf(api.KindNotFound, "the machine of sandbox %s has ended", id)
	}
	h, err := b.ready(ctx)
	if err != nil {
		return none, err
	}
	root, err := leased.Lease(b.cfg.Layers, spec.Layers)
	if err != nil {
		return none, err
	}
	m := newMachine(b, spec, root)
	m.vessel = &vessel{b: b, dir: b.rundir(id), host: h, memory: h.ram(spec.Limits.MemoryBytes)}
	m.vessel.id = r.PID
	undo := func() {
		if m.control != nil {
			m.control.Close()
		}
		if m.ids != nil {
			b.ids.Leave(m.ids)
		}
		root.Release()
	}
	paused, err := m.retake(ctx, r)
	if err != nil {
		undo()
		return none, api.Errorf(api.KindConflict, "sandbox %s: %w", id, err)
	}
	if m.watch, err = proc.Open(r.PID.PID); err != nil {
		undo()
		return none, api.Errorf(api.KindNotFound, "the machine of sandbox %s has ended", id)
	}
	m.run()
	return sandbox.Adopted{Machine: m, Spec: spec, Paused: paused}, nil
}

// retake connects to a machine that another process started.
func (m *machine) retake(ctx context.Context, r record) (paused bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, adoptTimeout)
	defer cancel()
	if m.group, err = cgroup.At(string(m.id), r.Group); err != nil {
		return false, err
	}
	if m.b.ids != nil {
		if m.ids, err = m.b.ids.Retake(ctx, r.Range, r.PID); err != nil {
			return false, err
		}
	}
	ram, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/%d", r.PID.PID, memoryFile), os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	if r.Private {
		m.from = ram
	} else {
		m.ram = ram
	}
	if err := m.connect(ctx); err != nil {
		return false, err
	}
	running, err := m.control.Running(ctx)
	if err != nil {
		return false, err
	}
	_, herr := os.Lstat(filepath.Join(m.dir, heldFile))
	held := herr == nil
	// A stopped machine does not answer: it runs for that long.
	if !running {
		if err := m.control.Continue(ctx); err != nil {
			return false, err
		}
	}
	err = m.greet(ctx)
	if err == nil && held {
		err = m.unhold(ctx)
	}
	if err == nil && !running && !held {
		m.paused = true
		m.link.Pause(true)
		err = m.control.Stop(ctx)
	}
	if err != nil && m.mux != nil {
		m.mux.Close()
	}
	return m.paused, err
}

// Orphans implements sandbox.Backend.
func (b *Backend) Orphans(context.Context) ([]api.SandboxID, error) {
	entries, err := os.ReadDir(b.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, api.Errorf(api.KindInternal, "microvm backend: %w", err)
	}
	var ids []api.SandboxID
	for _, e := range entries {
		if id := api.SandboxID(e.Name()); id.Valid() {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Reclaim implements sandbox.Backend.
func (b *Backend) Reclaim(ctx context.Context, id api.SandboxID) (api.Proof, error) {
	proof := api.Proof{How: "nothing is left of the machine"}
	if !id.Valid() {
		return api.Proof{}, api.Errorf(api.KindInvalid, "sandbox id %q is malformed", string(id))
	}
	g := b.cgroups.Open(string(id))
	if r, _, err := b.read(id); err == nil {
		if at, err := cgroup.At(string(id), r.Group); err == nil {
			g = at
		}
		killed, err := r.PID.Kill(ctx, true)
		if err != nil {
			proof.Left = -1
			return proof, api.Errorf(api.KindOf(err), "end the machine of sandbox %s: %w", id, err)
		}
		if killed {
			proof.Killed, proof.How = -1, howEnded
		}
	}
	// Of a start that was interrupted there is a group, but no record.
	for _, pid := range g.Procs() {
		if p, err := os.FindProcess(pid); err == nil {
			p.Kill()
			proof.Killed, proof.How = -1, howEnded
		}
	}
	if err := g.Remove(groupWait); err != nil {
		proof.Left = len(g.Procs())
		return proof, api.Errorf(api.KindInternal, "sandbox %s: %w", id, err)
	}
	if err := os.RemoveAll(b.rundir(id)); err != nil {
		return proof, api.Errorf(api.KindInternal, "sandbox %s: %w", id, err)
	}
	return proof, nil
}
