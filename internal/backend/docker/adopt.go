package docker

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
)

// find lists the containers of this daemon, of one sandbox if id is not empty. The engine compares the
// labels; they are compared again, because what is listed is destroyed.
func (b *Backend) find(ctx context.Context, id api.SandboxID) ([]container.Summary, error) {
	f := client.Filters{}.Add("label", labelOwner+"="+b.owner)
	if id != "" {
		f.Add("label", labelSandbox+"="+string(id))
	}
	got, err := b.engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: f})
	if err != nil {
		return nil, engineError("list the containers of sandboxes", err)
	}
	return slices.DeleteFunc(got.Items, func(c container.Summary) bool {
		of := api.SandboxID(c.Labels[labelSandbox])
		return c.Labels[labelOwner] != b.owner || !of.Valid() || id != "" && of != id
	}), nil
}

// Adopt implements sandbox.Backend.
func (b *Backend) Adopt(ctx context.Context, id api.SandboxID) (_ sandbox.Adopted, err error) {
	var none sandbox.Adopted
	if !id.Valid() {
		return none, api.Errorf(api.KindInvalid, "sandbox id %q is malformed", string(id))
	}
	all, err := b.find(ctx, id)
	if err != nil {
		return none, err
	}
	if len(all) == 0 {
		return none, api.Errorf(api.KindNotFound, "sandbox %s has no container", id)
	}
	if len(all) > 1 {
		return none, api.Errorf(api.KindConflict, "sandbox %s has %d containers", id, len(all))
	}
	got, err := b.engine.ContainerInspect(ctx, all[0].ID, client.ContainerInspectOptions{})
	if err != nil {
		return none, engineError("inspect a container", err)
	}
	state := got.Container.State
	if state == nil || !state.Running || state.Pid <= 1 {
		return none, api.Errorf(api.KindNotFound, "the first process of sandbox %s has ended", id)
	}
	var spec sandbox.Spec
	if err := json.Unmarshal([]byte(all[0].Labels[labelSpec]), &spec); err != nil || spec.ID != id {
		return none, api.Errorf(api.KindConflict, "the container of sandbox %s does not say how it was started", id)
	}
	r, err := b.lease(spec.Layers)
	if err != nil {
		return none, err
	}
	pid := state.Pid
	if b.at.far {
		pid = 0 // of another machine
	}
	files, err := b.reattach(ctx, spec, pid)
	if err != nil {
		r.Release()
		return none, api.Errorf(api.KindConflict, "sandbox %s: %w", id, err)
	}
	m := newMachine(b, spec, all[0].ID, r, files)
	m.pid = pid
	paused, err := m.retake(ctx, state.Paused)
	if err != nil {
		r.Release()
		files.Leave()
		if m.wire != nil {
			m.wire.end()
		}
		return none, err
	}
	m.run()
	return sandbox.Adopted{Machine: m, Spec: spec, Paused: paused}, nil
}

// retake makes a machine whose container was started by an earlier daemon what it was.
func (m *machine) retake(ctx context.Context, paused bool) (bool, error) {
	if err := m.greet(ctx, paused); err != nil {
		return false, api.Errorf(api.KindOf(err), "sandbox %s: %w", m.id, err)
	}
	m.link.Pause(paused)
	if err := m.b.endSave(ctx, m); err != nil {
		return false, err
	}
	return m.b.paused(ctx, m.container)
}

// greet checks that the guest of a container that was started by an earlier daemon answers. One at another host that is paused cannot.
func (m *machine) greet(ctx context.Context, paused bool) error {
	if m.wire == nil {
		conn, err := m.link.Dial(ctx)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	if paused {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return m.wire.connect(ctx)
}

// Orphans implements sandbox.Backend. An engine that cannot be reached has sandboxes of which the run
// directories are known.
func (b *Backend) Orphans(ctx context.Context) ([]api.SandboxID, error) {
	entries, err := os.ReadDir(b.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, api.Errorf(api.KindInternal, "docker backend: %w", err)
	}
	var ids []api.SandboxID
	for _, e := range entries {
		if id := api.SandboxID(e.Name()); id.Valid() {
			ids = append(ids, id)
		}
	}
	containers, err := b.find(ctx, "")
	if err != nil {
		// Every container has a run directory, unless a removal was interrupted.
		b.log.Debug("cannot list containers of sandboxes", "error", err)
	}
	for _, c := range containers {
		ids = append(ids, api.SandboxID(c.Labels[labelSandbox]))
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// Reclaim implements sandbox.Backend. Changes of a durable workspace are stored first, if it has them: the daemon that is no more had no time to.
func (b *Backend) Reclaim(ctx context.Context, id api.SandboxID) (api.Proof, error) {
	proof := api.Proof{How: "the engine has no container of the sandbox"}
	if !id.Valid() {
		return api.Proof{}, api.Errorf(api.KindInvalid, "sandbox id %q is malformed", string(id))
	}
	if err := b.removeSavers(ctx, id); err != nil {
		proof.Left = -1
		return proof, err
	}
	all, err := b.find(ctx, id)
	if err != nil {
		proof.Left = -1
		return proof, err
	}
	for _, c := range all {
		got, err := b.engine.ContainerInspect(ctx, c.ID, client.ContainerInspectOptions{})
		pid, running := 0, false
		if err == nil && got.Container.State != nil && got.Container.State.Running {
			running = true
			if !b.at.far {
				pid = got.Container.State.Pid
			}
			proof.Killed += max(1, int(groupOf(pid).processes()))
			proof.How = howRemoved
		}
		release, err := b.storeLeft(ctx, id, c, pid, running)
		if err != nil {
			b.log.Error("changes of a workspace are lost", "sandbox", id, "error", err)
		}
		defer release()
		if err := b.remove(ctx, c.ID); err != nil {
			proof.Left = -1
			return proof, err
		}
	}
	if err := os.RemoveAll(b.rundir(id)); err != nil {
		return proof, api.Errorf(api.KindInternal, "sandbox %s: %w", id, err)
	}
	return proof, nil
}

// storeLeft stores the changes of the durable workspace that a container of an earlier daemon has. release releases the workspace, once
// the container is removed. pid is its first process; 0 if that has ended, or is at another host.
func (b *Backend) storeLeft(ctx context.Context, id api.SandboxID, c container.Summary, pid int, running bool) (release func(), err error) {
	none := func() {}
	var spec sandbox.Spec
	if err := json.Unmarshal([]byte(c.Labels[labelSpec]), &spec); err != nil || spec.ID != id || spec.Workspace == nil || spec.Workspace.Upper == "" {
		return none, nil
	}
	if _, err := os.Stat(filepath.Join(b.rundir(id), holderFile)); errors.Is(err, fs.ErrNotExist) {
		return none, nil // no command has started
	}
	files, err := b.reattach(ctx, spec, pid)
	if err != nil {
		return none, err
	}
	if running {
		m := &machine{b: b, id: id, container: c.ID}
		err = m.freeze(ctx)
	}
	if err == nil {
		err = b.store(ctx, spec, c.ID, files)
	}
	return files.Release, err
}
