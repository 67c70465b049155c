package http

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"hortus.dev/api"
)

// Workspaces is what the server asks of workspaces. Each that reads or changes the files fails
// with KindConflict, naming the user, while a sandbox uses the workspace.
type Workspaces interface {
	Create(ctx context.Context, req api.CreateWorkspace) (api.Workspace, error)
	// Page lists those that are not removed, the newest first.
	Page(ctx context.Context, p api.PageRequest) (rows []api.Workspace, next string, err error)
	Get(ctx context.Context, id api.WorkspaceID) (api.Workspace, error)
	// Find takes a name or a unique prefix of an ID.
	Find(ctx context.Context, nameOrPrefix string) (api.WorkspaceID, error)
	Fork(ctx context.Context, id api.WorkspaceID, req api.ForkWorkspace) (api.Workspace, error)
	Seal(ctx context.Context, id api.WorkspaceID) (api.SealedWorkspace, error)
	Update(ctx context.Context, id api.WorkspaceID, req api.UpdateWorkspace) (api.Workspace, error)
	Remove(ctx context.Context, id api.WorkspaceID) (api.Workspace, error)
	Diff(ctx context.Context, id api.WorkspaceID, text bool) (api.WorkspaceDiff, error)
	// Export writes nothing if it fails before the first file.
	Export(ctx context.Context, id api.WorkspaceID, git bool, to io.Writer) (api.WorkspaceExport, error)
}

// trailerExport has what an archive is of, after the archive.
const trailerExport = "Hortus-Export"

func (d workspaces) workspaceRoutes() []Route {
	const one = "/v1/workspaces/{id}"
	return []Route{{
		Method: "POST", Pattern: "/v1/workspaces", Name: "createWorkspace", Role: api.RoleUser, Creates: true,
		Doc: "Create an empty workspace. It is kept until it is deleted.",
		In:  api.CreateWorkspace{}, Optional: true, Out: api.Workspace{}, Status: http.StatusCreated,
		Handler: accept(http.StatusCreated, decodeAny, func(r *http.Request, in api.CreateWorkspace) (api.Workspace, error) {
			return d.Workspaces.Create(r.Context(), in)
		}),
	}, {
		Method: "GET", Pattern: "/v1/workspaces", Name: "workspaces", Role: api.RoleUser,
		Doc: "List the workspaces that exist, newest first.",
		Out: []api.Workspace{}, Paged: true,
		Handler: page(func(ctx context.Context, _ *http.Request, p api.PageRequest) ([]api.Workspace, string, error) {
			return d.Workspaces.Page(ctx, p)
		}),
	}, {
		Method: "GET", Pattern: one, Name: "workspace", Role: api.RoleUser, Stored: true,
		Doc:     "Get a workspace with its disk usage, by its id, a unique prefix of it, or its name.",
		Out:     api.Workspace{},
		Handler: on(d.Workspaces, d.workspaceID, Workspaces.Get),
	}, {
		Method: "DELETE", Pattern: one, Name: "removeWorkspace", Role: api.RoleUser,
		Doc:     "Delete a workspace and everything that was written to it.",
		Out:     api.Workspace{},
		Handler: on(d.Workspaces, d.workspaceID, Workspaces.Remove),
	}, {
		Method: "POST", Pattern: one + "/quota", Name: "setWorkspaceQuota", Role: api.RoleUser,
		Doc: "Change the quota of a workspace.",
		In:  api.UpdateWorkspace{}, Out: api.Workspace{},
		Handler: change(http.StatusOK, decode, d.Workspaces, d.workspaceID, Workspaces.Update),
	}, {
		Method: "POST", Pattern: one + "/forks", Name: "forkWorkspace", Role: api.RoleUser, Creates: true,
		Doc: "Copy a workspace. The copy lies on the same layers.",
		In:  api.ForkWorkspace{}, Optional: true, Out: api.Workspace{}, Status: http.StatusCreated,
		Handler: change(http.StatusCreated, decodeAny, d.Workspaces, d.workspaceID, Workspaces.Fork),
	}, {
		Method: "POST", Pattern: one + "/seal", Name: "sealWorkspace", Role: api.RoleUser,
		Doc:     "Make a read-only layer of what was written since the last seal. Sandboxes of the workspace see the same files.",
		Out:     api.SealedWorkspace{},
		Handler: on(d.Workspaces, d.workspaceID, Workspaces.Seal),
	}, {
		Method: "GET", Pattern: one + "/diff", Name: "workspaceDiff", Role: api.RoleUser,
		Doc: "Get what the workspace changes over its layers.",
		Out: api.WorkspaceDiff{}, Params: []Param{{Name: "text", Doc: "Include unified diffs of short text files (default false).", Type: false}},
		Handler: give(func(r *http.Request) (out api.WorkspaceDiff, err error) {
			id, err := d.workspaceID(r)
			if err != nil {
				return out, err
			}
			text, err := flag(r, "text")
			if err != nil {
				return out, err
			}
			return d.Workspaces.Diff(r.Context(), id, text)
		}),
	}, {
		Method: "GET", Pattern: one + "/export", Name: "exportWorkspace", Role: api.RoleUser,
		Doc:     "Get all files of the workspace as a tar archive. The trailer Hortus-Export says what was left out, as JSON.",
		OutType: typeTar, Params: []Param{{Name: "git", Doc: "Include directories with the name .git (default false). Their configuration can run programs on the machine of anyone who uses git there.", Type: false}},
		Handler: d.export,
	}}
}

const typeTar = "application/x-tar"

// workspaceID reads the identifier of a workspace in the path: a whole one, a unique prefix, or
// its name.
func (d workspaces) workspaceID(r *http.Request) (api.WorkspaceID, error) {
	return pathID(r, d.Workspaces, func(s Workspaces, ctx context.Context, name string) (api.WorkspaceID, error) {
		if name == "" || len(name) > 63 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return "", api.Errorf(api.KindInvalid, "%.40q is neither a name nor an ID of a workspace", name)
		}
		return s.Find(ctx, name)
	})
}

// export streams the archive. What fails after its beginning ends the connection, so that a
// part of an archive does not look complete.
func (d workspaces) export(w http.ResponseWriter, r *http.Request) error {
	id, err := d.workspaceID(r)
	if err != nil {
		return err
	}
	git, err := flag(r, "git")
	if err != nil {
		return err
	}
	out := &archive{w: w, trailer: trailerExport}
	done, err := d.Workspaces.Export(r.Context(), id, git, out)
	if err != nil && !out.begun {
		return err
	}
	b, merr := json.Marshal(done)
	if err != nil || merr != nil {
		if r.Context().Err() == nil {
			d.Logger.Warn("an export of a workspace was interrupted", "workspace", id, "error", err)
		}
		panic(http.ErrAbortHandler)
	}
	out.begin()
	w.Header().Set(trailerExport, string(b))
	return nil
}

// archive begins an answer with the first byte that is written.
type archive struct {
	w       http.ResponseWriter
	trailer string // the header after the content; empty for none
	begun   bool
}

func (a *archive) begin() {
	if a.begun {
		return
	}
	a.begun = true
	a.w.Header().Set("Content-Type", typeTar)
	a.w.Header().Set("X-Content-Type-Options", "nosniff")
	if a.trailer != "" {
		a.w.Header().Set("Trailer", a.trailer)
	}
	a.w.WriteHeader(http.StatusOK)
}

// Write implements io.Writer.
func (a *archive) Write(p []byte) (int, error) {
	a.begin()
	return a.w.Write(p)
}
