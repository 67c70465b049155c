package docker

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
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
	m := newMachine(b, id, all[0].ID, r)
	m.pid = state.Pid
	conn, err := m.link.Dial(ctx)
	if err != nil {
		r.release()
		return none, api.Errorf(api.KindConflict, "sandbox %s: %w", id, err)
	}
	conn.Close()
	m.link.Pause(state.Paused)
	m.run()
	return sandbox.Adopted{Machine: m, Spec: spec, Paused: state.Paused}, nil
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

// Reclaim implements sandbox.Backend.
func (b *Backend) Reclaim(ctx context.Context, id api.SandboxID) (api.Proof, error) {
	proof := api.Proof{How: "the engine has no container of the sandbox"}
	if !id.Valid() {
		return api.Proof{}, api.Errorf(api.KindInvalid, "sandbox id %q is malformed", string(id))
	}
	all, err := b.find(ctx, id)
	if err != nil {
		proof.Left = -1
		return proof, err
	}
	for _, c := range all {
		got, err := b.engine.ContainerInspect(ctx, c.ID, client.ContainerInspectOptions{})
		if err == nil && got.Container.State != nil && got.Container.State.Running {
			proof.Killed += max(1, int(groupOf(got.Container.State.Pid).processes()))
			proof.How = howRemoved
		}
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
