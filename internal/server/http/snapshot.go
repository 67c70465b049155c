package http

import (
	"context"
	"io"
	"net/http"
	"strconv"

	"hortus.dev/api"
)

// Snapshots is what the server asks of saved sandboxes.
type Snapshots interface {
	Snapshot(ctx context.Context, id api.SandboxID, req api.CreateSnapshot) (api.Snapshot, error)
	// Fork returns what there is also when some of the children failed.
	Fork(ctx context.Context, id api.SandboxID, req api.ForkSandbox) (api.ForkResult, error)
	PauseToDisk(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	// Snapshots lists, the newest first, those that are there, or all that ever
	// were.
	// SnapshotPage lists those that are there, or all, the newest first; to a user its
	// own, then the operator's templates.
	SnapshotPage(ctx context.Context, all bool, p api.PageRequest) (rows []api.Snapshot, next string, err error)
	GetSnapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error)
	// FindSnapshot takes the name of a template, or a unique beginning of an id.
	FindSnapshot(ctx context.Context, nameOrPrefix string) (api.SnapshotID, error)
	RemoveSnapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error)
	TagSnapshot(ctx context.Context, id api.SnapshotID, req api.TagSnapshot) (api.Snapshot, error)
	UntagSnapshot(ctx context.Context, id api.SnapshotID, tag string) (api.Snapshot, error)
	// CreateTemplate reports its steps, one after the other, before it returns. The
	// end of ctx ends it and what it began.
	CreateTemplate(ctx context.Context, req api.CreateTemplate, progress func(step string)) (api.Snapshot, error)
}

func (d snapshots) snapshotRoutes() []Route {
	return []Route{{
		Method: "POST", Pattern: "/v1/sandboxes/{id}/snapshots", Name: "createSnapshot", Role: api.RoleUser, Creates: true,
		Doc: "Save the state of the sandbox as a snapshot. The sandbox continues.",
		In:  api.CreateSnapshot{}, Optional: true, Out: api.Snapshot{}, Status: http.StatusCreated,
		Handler: change(http.StatusCreated, decodeAny, d.Snapshots, sandboxID(d.Sandboxes), Snapshots.Snapshot),
	}, {
		Method: "POST", Pattern: "/v1/sandboxes/{id}/forks", Name: "forkSandbox", Role: api.RoleUser, Creates: true, Waits: true,
		Doc: "Fork the sandbox: create sandboxes with its current state. Each one succeeds or fails separately. " + waitDoc,
		In:  api.ForkSandbox{}, Optional: true, Out: api.ForkResult{}, Status: http.StatusCreated,
		Handler: change(http.StatusCreated, decodeAny, d.Snapshots, sandboxID(d.Sandboxes), func(s Snapshots, ctx context.Context, id api.SandboxID, in api.ForkSandbox) (api.ForkResult, error) {
			v, err := s.Fork(ctx, id, in)
			if v.Children == nil {
				v.Children = []api.ForkChild{}
			}
			return v, err
		}),
	}, {
		Method: "GET", Pattern: "/v1/snapshots", Name: "snapshots", Role: api.RoleUser,
		Doc: "List the snapshots that exist, or all, newest first.",
		Out: []api.Snapshot{}, Paged: true, Params: []Param{allParam},
		Handler: pageAll(d.Snapshots, Snapshots.SnapshotPage),
	}, {
		Method: "GET", Pattern: "/v1/snapshots/{id}", Name: "snapshot", Role: api.RoleUser, Stored: true,
		Doc:     "Get a snapshot, by its id, a unique prefix of it, or the name of a template.",
		Out:     api.Snapshot{},
		Handler: on(d.Snapshots, d.snapshotID, Snapshots.GetSnapshot),
	}, {
		Method: "DELETE", Pattern: "/v1/snapshots/{id}", Name: "removeSnapshot", Role: api.RoleUser,
		Doc:     "Delete a snapshot.",
		Out:     api.Snapshot{},
		Handler: on(d.Snapshots, d.snapshotID, Snapshots.RemoveSnapshot),
	}, {
		Method: "POST", Pattern: "/v1/snapshots/{id}/tags", Name: "tagSnapshot", Role: api.RoleUser,
		Doc: "Give a template more tags: afterwards NAME:TAG is this snapshot. Snapshots that have no tag left are removed.",
		In:  api.TagSnapshot{}, Out: api.Snapshot{},
		Handler: change(http.StatusOK, decode, d.Snapshots, d.snapshotID, Snapshots.TagSnapshot),
	}, {
		Method: "DELETE", Pattern: "/v1/snapshots/{id}/tags/{tag}", Name: "untagSnapshot", Role: api.RoleUser,
		Doc: "Take a tag from a template. The snapshot is removed with its last tag.",
		Out: api.Snapshot{},
		Handler: give(func(r *http.Request) (v api.Snapshot, err error) {
			id, err := d.snapshotID(r)
			if err != nil {
				return v, err
			}
			return d.Snapshots.UntagSnapshot(r.Context(), id, r.PathValue("tag"))
		}),
	}, {
		Method: "GET", Pattern: "/v1/templates", Name: "templates", Role: api.RoleUser,
		Doc:     "List the templates that sandboxes can start from.",
		Out:     []api.Template{},
		Handler: d.templates,
	}, {
		Method: "POST", Pattern: "/v1/templates", Name: "createTemplate", Role: api.RoleUser, Creates: true,
		Doc: `Create a template from a running sandbox. ` + linesDoc + `with the snapshot.`,
		In:  api.CreateTemplate{}, OutType: typeLines, Out: TemplateLine{},
		Handler: d.createTemplate,
	}}
}

// TemplateLine is one line of the making of a template. Type says which other field is set.
type TemplateLine struct {
	Type     api.LineType  `json:"type"`
	Step     string        `json:"step,omitempty"`
	Snapshot *api.Snapshot `json:"snapshot,omitempty"`
	Error    *api.Problem  `json:"error,omitempty"`
}

// flag reads a boolean parameter (default false).
func flag(r *http.Request, name string) (bool, error) {
	s := r.URL.Query().Get(name)
	if s == "" {
		return false, nil
	}
	v, err := strconv.ParseBool(s)
	if err != nil {
		return false, api.Errorf(api.KindInvalid, "%s=%.20q is not true or false", name, s)
	}
	return v, nil
}

// snapshotID reads the identifier of a snapshot in the path: a whole one, a unique prefix, or
// the name of a template.
func (d snapshots) snapshotID(r *http.Request) (api.SnapshotID, error) {
	return pathID(r, d.Snapshots, func(s Snapshots, ctx context.Context, name string) (api.SnapshotID, error) {
		if !api.ValidSnapshotName(name) {
			return "", api.Errorf(api.KindInvalid, "%.40q is neither a template nor a snapshot ID", name)
		}
		return s.FindSnapshot(ctx, name)
	})
}

// templates lists the templates: the host template, which always exists, the images that have
// a name, and each name of snapshots. Sandboxes start from the snapshot if both have
// the same name.
func (d snapshots) templates(w http.ResponseWriter, r *http.Request) error {
	out := []api.Template{{Name: api.HostTemplate}}
	named, err := d.images.named(r.Context())
	if err != nil {
		return err
	}
	out = append(out, named...)
	seen := map[string]bool{}
	page := func(ctx context.Context, p api.PageRequest) ([]api.Snapshot, string, error) {
		return d.Snapshots.SnapshotPage(ctx, false, p)
	}
	for s, err := range api.Pages(r.Context(), page) {
		if err != nil {
			return err
		}
		for _, name := range s.Names() {
			if s.State == api.SnapshotReady && !seen[name] {
				seen[name] = true
				out = append(out, api.Template{Name: name, Snapshot: &s})
			}
		}
	}
	return reply(w, http.StatusOK, out, nil)
}

// createTemplate streams the steps, one JSON value per line. If the client disconnects, the
// work is cancelled.
func (d snapshots) createTemplate(w http.ResponseWriter, r *http.Request) error {
	var in api.CreateTemplate
	if err := decode(w, r, &in); err != nil {
		return err
	}
	out := lines{w: w}
	v, err := d.Snapshots.CreateTemplate(r.Context(), in, func(step string) { out.write(TemplateLine{Type: api.LineStep, Step: step}) })
	if err == nil {
		out.write(TemplateLine{Type: api.LineDone, Snapshot: &v})
	}
	return out.end(err)
}

// Templates exports templates. Export writes nothing before it knows that the template can be
// exported.
type Templates interface {
	Export(ctx context.Context, name string, w io.Writer) error
}

func (d images) exportRoutes() []Route {
	return []Route{{
		Method: "GET", Pattern: "/v1/templates/{name}/export", Name: "exportTemplate", Role: api.RoleAdmin,
		Doc:     "Export a template as a container image: a tar archive that is an OCI layout and what docker save writes. An answer that is cut off is incomplete. The name is that of a template, or the ID of a snapshot or an image.",
		OutType: typeTar,
		Handler: d.export,
	}}
}

// export streams the archive. What fails after its beginning ends the connection, so that a part
// of an archive does not look complete.
func (d images) export(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if !api.ValidImageName(name) {
		return api.Errorf(api.KindInvalid, "%.80q is not the name of a template, or the ID of a snapshot or an image", name)
	}
	if d.Templates == nil {
		return api.Errorf(api.KindUnsupported, "this daemon has no store of images")
	}
	out := &archive{w: w}
	err := d.Templates.Export(r.Context(), name, out)
	if err != nil && out.begun {
		if r.Context().Err() == nil {
			d.Logger.Warn("an export of a template was interrupted", "template", name, "error", err)
		}
		panic(http.ErrAbortHandler)
	}
	return err
}
