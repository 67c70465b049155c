package sandbox

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
)

// Workspace is what a sandbox has at /workspace: read-only layers, and where what
// is written over them goes.
type Workspace struct {
	// Layers are what it lies on, the lowest first; with an Upper they are those
	// that it was made with.
	Layers []layer.Digest
	// Upper is the durable workspace that takes the changes, which this sandbox is
	// the one writer of. Empty means the sandbox's own disk: they end with it.
	Upper api.WorkspaceID
}

// CreateIn is Create for a sandbox with files at /workspace. It is never pooled.
//
// Errors: those of Create; KindUnsupported, naming the capability, where the
// backend cannot do it on this host; KindConflict while another has the workspace;
// KindNotFound for a workspace or a layer that is not there; KindExhausted when the
// host's disk has no room to begin with.
func (m *Manager) CreateIn(ctx context.Context, req api.CreateSandbox, ws Workspace) (row api.Sandbox, err error) {
	if len(ws.Layers) == 0 {
		return api.Sandbox{}, api.Errorf(api.KindInvalid, "a workspace needs at least one layer")
	}
	var w wish
	ctx, end := m.step(ctx, Step{Op: OpCreate})
	defer func() {
		end(Outcome{Sandbox: row.ID, Isolation: w.isolation(), Way: WayWorkspace, Err: err})
	}()
	if w, err = m.resolve(ctx, &req, api.CapWorkspace); err != nil {
		return api.Sandbox{}, err
	}
	if req.OnExpiry.Pauses() {
		return api.Sandbox{}, api.Errorf(api.KindUnsupported, "a sandbox with a workspace cannot be paused to disk at its deadline (capability %s)", api.CapCheckpoint)
	}
	if w.snapshot != nil {
		return api.Sandbox{}, api.Errorf(api.KindUnsupported, "a sandbox with a workspace cannot start from snapshot %s (capability %s)", w.snapshot.ID, api.CapWorkspace)
	}
	if w.limits, w.asked, w.missing, err = resolveLimits(req.Limits, api.DefaultWorkspaceLimits(), w.report); err != nil {
		return api.Sandbox{}, err
	}
	a, ok := w.report.Has(api.CapWorkspace)
	if !ok {
		return api.Sandbox{}, api.Errorf(api.KindUnsupported, "the %s backend has no durable files over layers on this host: %s (capability %s)",
			w.report.Backend, a.Reason, api.CapWorkspace).WithHint("%s", a.Fix)
	}
	if ws.Upper != "" {
		w.missing = append(w.missing, api.Unenforced{Limit: "disk", Reason: "best effort for /workspace: " + UpperLimit})
	}
	w.workspace = &ws
	return m.boot(ctx, req, &w, nil)
}

// UpperLimit says how the disk limit holds for a durable workspace.
const UpperLimit = "it lies on the host's disk, which the host measures again and again; over its limit the sandbox is killed soon after"
