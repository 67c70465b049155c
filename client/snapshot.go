package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"

	"hortus.dev/api"
)

// Snapshot saves the sandbox as it is at one instant, and lets it continue. It returns
// when the snapshot is on disk and checked. Where memory cannot be saved it holds
// files alone, which its Kind says.
func (s *Sandbox) Snapshot(ctx context.Context, req api.CreateSnapshot) (api.Snapshot, error) {
	var out api.Snapshot
	return out, s.client.call(ctx, http.MethodPost, s.path("/snapshots"), req, &out)
}

// Fork makes children that continue from where the sandbox stands, each for itself and
// with an identity of its own; the sandbox continues too. Each child succeeds or fails
// by itself: look at every [api.ForkChild], also without an error. A child's handle
// is [SandboxService.Get] of its id.
func (s *Sandbox) Fork(ctx context.Context, req api.ForkSandbox) (api.ForkResult, error) {
	var out api.ForkResult
	return out, s.client.call(ctx, http.MethodPost, s.path("/forks"), req, &out)
}

// PauseToDisk saves the sandbox's memory and releases it, until Resume: neither
// the daemon nor the machine need run in between. KindUnsupported says that its
// backend cannot save memory.
func (s *Sandbox) PauseToDisk(ctx context.Context) (api.Sandbox, error) {
	var out api.Sandbox
	return out, s.client.call(ctx, http.MethodPost, s.path("/pause"), api.PauseSandbox{ToDisk: true}, &out)
}

// SnapshotService finds, lists and removes snapshots, templates among them.
type SnapshotService struct{ service }

// List lists snapshots, templates among them, the newest first: those that are
// there, or all that ever were.
func (s *SnapshotService) List(ctx context.Context, all bool) ([]api.Snapshot, error) {
	return collect[api.Snapshot](ctx, s.client, "/v1/snapshots", whether(all), 0)
}

// Get returns a snapshot by its identifier, a unique beginning of that, or the
// name of a template. It fails with KindNotFound when there is none.
func (s *SnapshotService) Get(ctx context.Context, id string) (api.Snapshot, error) {
	var out api.Snapshot
	seg, err := nameSegment(id)
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodGet, "/v1/snapshots/"+seg, nil, &out)
}

// Remove removes a snapshot, named as for [SnapshotService.Get], with all that
// it holds. Sandboxes that started from it live on.
func (s *SnapshotService) Remove(ctx context.Context, id string) (api.Snapshot, error) {
	var out api.Snapshot
	seg, err := nameSegment(id)
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodDelete, "/v1/snapshots/"+seg, nil, &out)
}

// Tag gives a template more tags, which its other snapshots lose. Those that have no tag left are
// removed. The template is named as for [SnapshotService.Get].
func (s *SnapshotService) Tag(ctx context.Context, id string, tags ...string) (api.Snapshot, error) {
	var out api.Snapshot
	seg, err := nameSegment(id)
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodPost, "/v1/snapshots/"+seg+"/tags", api.TagSnapshot{Tags: tags}, &out)
}

// Untag takes a tag from a template, named as for [SnapshotService.Get]. The snapshot is removed with
// its last tag.
func (s *SnapshotService) Untag(ctx context.Context, id, tag string) (api.Snapshot, error) {
	var out api.Snapshot
	seg, err := nameSegment(id)
	if err == nil && !api.ValidTag(tag) {
		err = api.Errorf(api.KindInvalid, "%.80q is not a valid tag", tag)
	}
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodDelete, "/v1/snapshots/"+seg+"/tags/"+tag, nil, &out)
}

// TemplateService makes and lists templates: what sandboxes start from by name.
type TemplateService struct{ service }

// List lists what sandboxes can start from by name.
func (s *TemplateService) List(ctx context.Context) ([]api.Template, error) {
	var out []api.Template
	return out, s.client.call(ctx, http.MethodGet, "/v1/templates", nil, &out)
}

// Create makes a warm template: it boots a sandbox, runs the commands in it,
// and saves what they left running. progress, unless it is nil, receives each step as
// it begins. The end of ctx ends the work and what was begun.
func (s *TemplateService) Create(ctx context.Context, req api.CreateTemplate, progress func(step string)) (api.Snapshot, error) {
	resp, err := s.client.request(ctx, http.MethodPost, "/v1/templates", nil, req)
	if err != nil {
		return api.Snapshot{}, err
	}
	defer resp.Body.Close()
	dec := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer))
	for {
		var line struct {
			Step     string        `json:"step"`
			Snapshot *api.Snapshot `json:"snapshot"`
			Error    *api.Problem  `json:"error"`
		}
		err := dec.Decode(&line)
		switch {
		case err != nil && ctx.Err() != nil:
			return api.Snapshot{}, ctx.Err()
		case errors.Is(err, io.EOF):
			return api.Snapshot{}, api.Errorf(api.KindUnavailable, "the daemon ended before template %s was created", req.Name)
		case err != nil:
			return api.Snapshot{}, api.Errorf(api.KindUnavailable, "the creation of template %s was interrupted: %w", req.Name, err)
		case line.Error != nil:
			return api.Snapshot{}, line.Error.Err()
		case line.Snapshot != nil:
			return *line.Snapshot, nil
		case line.Step != "" && progress != nil:
			progress(line.Step)
		}
	}
}

// Upload stores files for builds, from a tar archive that may be compressed with gzip, and returns their ID.
func (s *TemplateService) Upload(ctx context.Context, archive io.Reader) (string, error) {
	resp, err := s.client.send(ctx, http.MethodPost, "/v1/templates/files", nil, archive, "application/x-tar")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var out api.BuildFiles
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&out); err != nil {
		return "", api.Errorf(api.KindUnavailable, "the answer of the daemon is malformed: %w", err)
	}
	return out.ID, nil
}

// Build builds a template from a Dockerfile. line, unless it is nil, receives each step as it
// begins, and each line that a step prints. The end of ctx ends the work and what was begun.
func (s *TemplateService) Build(ctx context.Context, req api.BuildTemplate, line func(api.BuildLine)) (api.Snapshot, error) {
	resp, err := s.client.request(ctx, http.MethodPost, "/v1/templates/build", nil, req)
	if err != nil {
		return api.Snapshot{}, err
	}
	defer resp.Body.Close()
	for dec := json.NewDecoder(resp.Body); ; {
		var l api.BuildLine
		err := dec.Decode(&l)
		switch {
		case err != nil && ctx.Err() != nil:
			return api.Snapshot{}, ctx.Err()
		case err != nil:
			return api.Snapshot{}, api.Errorf(api.KindUnavailable, "the build of template %s was interrupted: %w", req.Name, err)
		case l.Error != nil:
			return api.Snapshot{}, l.Error.Err()
		case l.Snapshot != nil:
			return *l.Snapshot, nil
		case line != nil:
			line(l)
		}
	}
}

// nameSegment is segment for what may be a template's name too.
func nameSegment(id string) (string, error) {
	if !api.ValidSnapshotName(id) {
		return "", api.Errorf(api.KindInvalid, "%.40q is neither a template nor a snapshot ID", id)
	}
	return id, nil
}

// Export writes a template as a container image: a tar archive that is an OCI layout and what
// docker save writes. The name is that of a template, or the ID of a snapshot or an image. After
// an error the archive is incomplete.
func (s *TemplateService) Export(ctx context.Context, name string, to io.Writer) error {
	if !api.ValidImageName(name) {
		return api.Errorf(api.KindInvalid, "%.80q is not the name of a template, or the ID of a snapshot or an image", name)
	}
	resp, err := s.client.request(ctx, http.MethodGet, "/v1/templates/"+url.PathEscape(name)+"/export", nil, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	dest := &written{w: to}
	_, err = io.Copy(dest, resp.Body)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case dest.err != nil:
		return dest.err
	}
	return api.Errorf(api.KindUnavailable, "the export of template %.200s was interrupted: %w", name, err)
}
