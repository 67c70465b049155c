package client

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"net/url"

	"hortus.dev/api"
)

// WorkspaceService makes, finds and removes workspaces: durable files that a sandbox has at
// /workspace (see [api.CreateSandbox]). A workspace is named by its ID, a unique prefix of it,
// or its name. What reads or changes its files fails with KindConflict while a sandbox uses it.
type WorkspaceService struct{ service }

func (s *WorkspaceService) path(id, rest string) (string, error) {
	seg, err := nameSegment(id)
	if err != nil {
		return "", api.Errorf(api.KindInvalid, "%.40q is neither a name nor an ID of a workspace", id)
	}
	return "/v1/workspaces/" + seg + rest, nil
}

// call calls a route of one workspace.
func (s *WorkspaceService) call(ctx context.Context, method, id, rest string, q url.Values, in, out any) error {
	path, err := s.path(id, rest)
	if err != nil {
		return err
	}
	return s.client.query(ctx, method, path, q, in, out)
}

// Create makes an empty workspace, which is kept until Remove.
func (s *WorkspaceService) Create(ctx context.Context, req api.CreateWorkspace) (api.Workspace, error) {
	var out api.Workspace
	return out, s.client.call(ctx, http.MethodPost, "/v1/workspaces", req, &out)
}

// List lists the workspaces, the newest first.
func (s *WorkspaceService) List(ctx context.Context) ([]api.Workspace, error) {
	return collect[api.Workspace](ctx, s.client, "/v1/workspaces", nil, 0)
}

// All yields workspaces, the newest first, page by page. It ends with the first error.
func (s *WorkspaceService) All(ctx context.Context) iter.Seq2[api.Workspace, error] {
	return walk[api.Workspace](ctx, s.client, "/v1/workspaces", nil)
}

// Get returns a workspace with its disk usage.
func (s *WorkspaceService) Get(ctx context.Context, id string) (api.Workspace, error) {
	var out api.Workspace
	return out, s.call(ctx, http.MethodGet, id, "", nil, nil, &out)
}

// Remove removes a workspace and everything that was written to it.
func (s *WorkspaceService) Remove(ctx context.Context, id string) (api.Workspace, error) {
	var out api.Workspace
	return out, s.call(ctx, http.MethodDelete, id, "", nil, nil, &out)
}

// SetQuota changes the maximum size of the files of a workspace, in bytes.
func (s *WorkspaceService) SetQuota(ctx context.Context, id string, bytes int64) (api.Workspace, error) {
	var out api.Workspace
	return out, s.call(ctx, http.MethodPost, id, "/quota", nil, api.UpdateWorkspace{QuotaBytes: bytes}, &out)
}

// Fork copies a workspace.
func (s *WorkspaceService) Fork(ctx context.Context, id string, req api.ForkWorkspace) (api.Workspace, error) {
	var out api.Workspace
	return out, s.call(ctx, http.MethodPost, id, "/forks", nil, req, &out)
}

// Seal makes a read-only layer of what was written since the last seal.
func (s *WorkspaceService) Seal(ctx context.Context, id string) (api.SealedWorkspace, error) {
	var out api.SealedWorkspace
	return out, s.call(ctx, http.MethodPost, id, "/seal", nil, nil, &out)
}

// Diff returns what a workspace changes over its layers; with text also unified diffs of short
// texts. Everything in it comes from sandboxes.
func (s *WorkspaceService) Diff(ctx context.Context, id string, text bool) (api.WorkspaceDiff, error) {
	q := url.Values{}
	if text {
		q.Set("text", "1")
	}
	var out api.WorkspaceDiff
	return out, s.call(ctx, http.MethodGet, id, "/diff", q, nil, &out)
}

// Export writes all files of a workspace as a tar archive. With git it has directories with the
// name .git too, whose configuration can run programs on the machine of anyone who uses git there.
// After an error the archive is incomplete.
func (s *WorkspaceService) Export(ctx context.Context, id string, git bool, to io.Writer) (api.WorkspaceExport, error) {
	var out api.WorkspaceExport
	path, err := s.path(id, "/export")
	if err != nil {
		return out, err
	}
	q := url.Values{}
	if git {
		q.Set("git", "1")
	}
	resp, err := s.client.request(ctx, http.MethodGet, path, q, nil)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	dest := &written{w: to}
	if _, err := io.Copy(dest, resp.Body); err != nil {
		switch {
		case ctx.Err() != nil:
			return out, ctx.Err()
		case dest.err != nil:
			return out, dest.err
		}
		return out, api.Errorf(api.KindUnavailable, "the export of workspace %s was interrupted: %w", id, err)
	}
	if err := json.Unmarshal([]byte(resp.Trailer.Get("Hortus-Export")), &out); err != nil {
		return out, api.Errorf(api.KindUnavailable, "the export of workspace %s is incomplete", id)
	}
	return out, nil
}

// written keeps the error of a writer apart from that of a reader.
type written struct {
	w   io.Writer
	err error
}

func (w *written) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	w.err = err
	return n, err
}
