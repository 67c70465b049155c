package access

import (
	"context"
	"io"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/quota"
)

// WorkspaceService is what keeps workspaces; it does not know who calls.
type WorkspaceService interface {
	Create(ctx context.Context, account string, req api.CreateWorkspace) (api.Workspace, error)
	// Row returns the record alone; Get measures the workspace too.
	Row(ctx context.Context, id api.WorkspaceID) (api.Workspace, error)
	Get(ctx context.Context, id api.WorkspaceID) (api.Workspace, error)
	// Page returns the newest first; account "" is everybody's.
	Page(ctx context.Context, account string, p api.PageRequest) (rows []api.Workspace, next string, err error)
	// Find takes a name of the account, or a prefix of an ID of scope; "" is everybody's.
	Find(ctx context.Context, account, scope, nameOrPrefix string) (api.WorkspaceID, error)
	Fork(ctx context.Context, id api.WorkspaceID, req api.ForkWorkspace) (api.Workspace, error)
	Seal(ctx context.Context, id api.WorkspaceID) (api.SealedWorkspace, error)
	SetQuota(ctx context.Context, id api.WorkspaceID, bytes int64) (api.Workspace, error)
	Remove(ctx context.Context, id api.WorkspaceID) (api.Workspace, error)
	Diff(ctx context.Context, id api.WorkspaceID, text bool) (api.WorkspaceDiff, error)
	Export(ctx context.Context, id api.WorkspaceID, git bool, to io.Writer) (api.WorkspaceExport, error)
	// Open prepares a workspace for a sandbox; done is called when the sandbox was created, or could not be.
	Open(ctx context.Context, id api.WorkspaceID) (done func(), err error)
	// Mount returns what a sandbox needs to have it at /workspace.
	Mount(ctx context.Context, id api.WorkspaceID) (sandbox.Workspace, error)
	// InUse says of a conflict who uses the workspace.
	InUse(ctx context.Context, w api.Workspace, err error) error
}

// Workspaces guards the service.
type Workspaces struct {
	w     WorkspaceService
	rates *quota.Rates
}

// NewWorkspaces guards a service and limits how often a key creates workspaces.
func NewWorkspaces(w WorkspaceService, rates *quota.Rates) *Workspaces { return &Workspaces{w, rates} }

// workspaceOf returns a workspace that the caller may see and use.
func workspaceOf(ctx context.Context, w WorkspaceService, id api.WorkspaceID) (api.Principal, api.Workspace, error) {
	p, err := caller(ctx)
	if err != nil {
		return p, api.Workspace{}, err
	}
	row, err := w.Row(ctx, id)
	if err == nil && !p.May(row.Account) {
		err = notFound("workspace", string(id))
	}
	if err != nil {
		return p, api.Workspace{}, err
	}
	return p, row, nil
}

func (w *Workspaces) allowed(ctx context.Context, id api.WorkspaceID) error {
	_, _, err := workspaceOf(ctx, w.w, id)
	return err
}

// creates is allowed for calls that create something.
func (w *Workspaces) creates(ctx context.Context, id api.WorkspaceID) error {
	p, _, err := workspaceOf(ctx, w.w, id)
	if err == nil {
		err = w.rates.Create(p, 1)
	}
	return err
}

// Create creates an empty workspace of the caller's account.
func (w *Workspaces) Create(ctx context.Context, req api.CreateWorkspace) (api.Workspace, error) {
	p, err := caller(ctx)
	if err == nil {
		err = w.rates.Create(p, 1)
	}
	return ifAllowed(err, func() (api.Workspace, error) { return w.w.Create(ctx, p.Account, req) })
}

// Page returns one page of the caller's workspaces, the newest first.
func (w *Workspaces) Page(ctx context.Context, page api.PageRequest) ([]api.Workspace, string, error) {
	p, err := caller(ctx)
	if err != nil {
		return nil, "", err
	}
	return w.w.Page(ctx, scope(p), page)
}

// Get returns a workspace with what was written in it.
func (w *Workspaces) Get(ctx context.Context, id api.WorkspaceID) (api.Workspace, error) {
	return ifAllowed(w.allowed(ctx, id), func() (api.Workspace, error) { return w.w.Get(ctx, id) })
}

// Find returns the one of the caller's workspaces that a name or a prefix stands for.
func (w *Workspaces) Find(ctx context.Context, nameOrPrefix string) (api.WorkspaceID, error) {
	p, err := caller(ctx)
	if err != nil {
		return "", err
	}
	return w.w.Find(ctx, p.Account, scope(p), nameOrPrefix)
}

// Fork copies a workspace; the copy belongs to its account.
func (w *Workspaces) Fork(ctx context.Context, id api.WorkspaceID, req api.ForkWorkspace) (api.Workspace, error) {
	return ifAllowed(w.creates(ctx, id), func() (api.Workspace, error) { return w.w.Fork(ctx, id, req) })
}

// Seal makes a layer of what was written in a workspace.
func (w *Workspaces) Seal(ctx context.Context, id api.WorkspaceID) (api.SealedWorkspace, error) {
	return ifAllowed(w.creates(ctx, id), func() (api.SealedWorkspace, error) { return w.w.Seal(ctx, id) })
}

// Update changes the quota of a workspace.
func (w *Workspaces) Update(ctx context.Context, id api.WorkspaceID, req api.UpdateWorkspace) (api.Workspace, error) {
	return ifAllowed(w.allowed(ctx, id), func() (api.Workspace, error) { return w.w.SetQuota(ctx, id, req.QuotaBytes) })
}

// Remove removes a workspace.
func (w *Workspaces) Remove(ctx context.Context, id api.WorkspaceID) (api.Workspace, error) {
	return ifAllowed(w.allowed(ctx, id), func() (api.Workspace, error) { return w.w.Remove(ctx, id) })
}

// Diff returns what a workspace changes over its layers.
func (w *Workspaces) Diff(ctx context.Context, id api.WorkspaceID, text bool) (api.WorkspaceDiff, error) {
	return ifAllowed(w.allowed(ctx, id), func() (api.WorkspaceDiff, error) { return w.w.Diff(ctx, id, text) })
}

// Export writes the files of a workspace as a tar archive.
func (w *Workspaces) Export(ctx context.Context, id api.WorkspaceID, git bool, to io.Writer) (api.WorkspaceExport, error) {
	return ifAllowed(w.allowed(ctx, id), func() (api.WorkspaceExport, error) { return w.w.Export(ctx, id, git, to) })
}

// createOver creates a sandbox with the workspace that its request names.
func (s *Sandboxes) createOver(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error) {
	p, err := caller(ctx)
	if err != nil {
		return api.Sandbox{}, err
	}
	id := api.WorkspaceID(req.Workspace)
	if !id.Valid() {
		if id, err = s.cfg.Workspaces.Find(ctx, p.Account, scope(p), req.Workspace); err != nil {
			return api.Sandbox{}, noWorkspace(err)
		}
	}
	_, row, err := workspaceOf(ctx, s.cfg.Workspaces, id)
	if err != nil {
		return api.Sandbox{}, noWorkspace(err)
	}
	done, err := s.cfg.Workspaces.Open(ctx, id)
	if err != nil {
		return api.Sandbox{}, s.cfg.Workspaces.InUse(ctx, row, err)
	}
	defer done()
	ws, err := s.cfg.Workspaces.Mount(ctx, id)
	if err != nil {
		return api.Sandbox{}, err
	}
	req.Workspace = string(id)
	sb, err := s.cfg.Quota.CreateIn(ctx, req, ws)
	return sb, s.cfg.Workspaces.InUse(ctx, row, err)
}

// noWorkspace says how to make what was not found.
func noWorkspace(err error) error {
	if api.KindOf(err) != api.KindNotFound {
		return err
	}
	return api.Errorf(api.KindNotFound, "%w", err).WithHint("to list workspaces: hortus workspace ls; to create one: hortus workspace create NAME")
}
