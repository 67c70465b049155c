package access

import (
	"context"
	"io"
	"strings"

	"hortus.dev/api"
)

// TemplateStore exports templates as archives of container images.
type TemplateStore interface {
	// Find finds an image by its template, its ID or its reference.
	Find(name string) (api.Image, error)
	// Export writes an image.
	Export(ctx context.Context, name string, w io.Writer) error
	// ExportSnapshot writes what a snapshot depends on and what it saved.
	ExportSnapshot(ctx context.Context, s api.Snapshot, w io.Writer) error
}

// TemplateRows finds the snapshots that the caller may see. [Sandboxes] does so.
type TemplateRows interface {
	FindSnapshot(ctx context.Context, nameOrPrefix string) (api.SnapshotID, error)
	GetSnapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error)
}

// Templates guards the export of templates. It reads everything of an image or a snapshot and
// costs the daemon's machine work, so only an admin exports.
type Templates struct {
	s    TemplateStore
	rows TemplateRows
}

// NewTemplates guards them.
func NewTemplates(s TemplateStore, rows TemplateRows) *Templates { return &Templates{s, rows} }

// Export writes a template. Its name is resolved as for a new sandbox: a snapshot's template,
// then an image, then a snapshot's ID. The caller must be an admin.
func (t *Templates) Export(ctx context.Context, name string, w io.Writer) error {
	if err := administrator(ctx, "exporting a template"); err != nil {
		return err
	}
	if name == api.HostTemplate {
		return api.Errorf(api.KindUnsupported, "template %s shows this machine's own programs, so it cannot be exported", name).
			WithHint("start from an image: hortus template create NAME --from-image REFERENCE")
	}
	row, err := t.snapshot(ctx, name)
	if err == nil && row.Name == name {
		return t.s.ExportSnapshot(ctx, row, w)
	}
	if err != nil && api.KindOf(err) != api.KindNotFound {
		return err
	}
	img, ierr := t.s.Find(name)
	switch {
	case ierr == nil:
		return t.s.Export(ctx, img.ID, w)
	case err == nil:
		return t.s.ExportSnapshot(ctx, row, w)
	case api.KindOf(ierr) == api.KindNotFound:
		return api.Errorf(api.KindNotFound, "template %.200q not found", name).WithHint("list templates with hortus template ls, snapshots with hortus snapshot ls")
	}
	return ierr
}

// snapshot finds a snapshot. The reference of an image is the name of none.
func (t *Templates) snapshot(ctx context.Context, name string) (api.Snapshot, error) {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return api.Snapshot{}, notFound("snapshot", name)
	}
	id, err := t.rows.FindSnapshot(ctx, name)
	if err != nil {
		return api.Snapshot{}, err
	}
	return t.rows.GetSnapshot(ctx, id)
}
