package access

import (
	"context"
	"io"
	"path"
	"strings"

	"hortus.dev/api"
)

// visible reports whether the caller sees a snapshot: its own ones, and the operator's
// templates.
func visible(p api.Principal, s api.Snapshot) bool {
	return p.May(s.Account) || p.Role == api.RoleUser && s.StartsFor(p.Account) && s.State == api.SnapshotReady
}

// Snapshot saves a sandbox. What is saved belongs to the sandbox's account.
func (s *Sandboxes) Snapshot(ctx context.Context, id api.SandboxID, req api.CreateSnapshot) (api.Snapshot, error) {
	p, err := s.may(ctx, id)
	if err == nil {
		err = s.cfg.Rates.Create(p, 1)
	}
	if err != nil {
		return api.Snapshot{}, err
	}
	return s.cfg.Saver.Snapshot(ctx, id, req)
}

// Fork makes children of a sandbox, which belong to its account.
func (s *Sandboxes) Fork(ctx context.Context, id api.SandboxID, req api.ForkSandbox) (api.ForkResult, error) {
	return s.cfg.Quota.ForkFor(ctx, id, req, "")
}

// operatorCursor begins the cursors of the operator's templates in a user's list of snapshots.
const operatorCursor = "o."

// SnapshotPage returns one page of what the caller may see of what was saved: its own,
// the newest first, then templates of the operator's.
func (s *Sandboxes) SnapshotPage(ctx context.Context, all bool, page api.PageRequest) ([]api.Snapshot, string, error) {
	p, err := caller(ctx)
	if err != nil {
		return nil, "", err
	}
	if p.Role == api.RoleAdmin {
		return s.cfg.Rows.SnapshotPage(ctx, "", all, page)
	}
	if rest, ok := strings.CutPrefix(page.Cursor, operatorCursor); ok {
		page.Cursor = rest
		rows, next, err := s.cfg.Rows.TemplatePage(ctx, page)
		if next != "" {
			next = operatorCursor + next
		}
		return rows, next, err
	}
	rows, next, err := s.cfg.Rows.SnapshotPage(ctx, p.Account, all, page)
	if err != nil || next != "" {
		return rows, next, err
	}
	most, err := page.Rows()
	if err != nil {
		return nil, "", err
	}
	if len(rows) == most {
		return rows, operatorCursor, nil
	}
	more, next, err := s.cfg.Rows.TemplatePage(ctx, api.PageRequest{Limit: most - len(rows)})
	if next != "" {
		next = operatorCursor + next
	}
	return append(rows, more...), next, err
}

func (s *Sandboxes) getSnapshot(ctx context.Context, id api.SnapshotID) (api.Principal, api.Snapshot, error) {
	p, err := caller(ctx)
	if err != nil {
		return p, api.Snapshot{}, err
	}
	row, err := s.cfg.Saver.GetSnapshot(ctx, id)
	if err == nil && !visible(p, row) {
		err = notFound("snapshot", string(id))
	}
	if err != nil {
		return p, api.Snapshot{}, err
	}
	return p, row, nil
}

// GetSnapshot returns a snapshot that the caller may see.
func (s *Sandboxes) GetSnapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error) {
	_, row, err := s.getSnapshot(ctx, id)
	return row, err
}

// FindSnapshot returns what a template's name or a prefix stands for to the caller.
func (s *Sandboxes) FindSnapshot(ctx context.Context, nameOrPrefix string) (api.SnapshotID, error) {
	p, err := caller(ctx)
	if err != nil {
		return "", err
	}
	if p.Role == api.RoleAdmin {
		return s.cfg.Saver.FindSnapshot(ctx, nameOrPrefix)
	}
	for page := (api.PageRequest{Limit: api.MaxPage}); nameOrPrefix != ""; {
		// Its own come first, and hide the operator's.
		rows, next, err := s.SnapshotPage(ctx, false, page)
		if err != nil {
			return "", err
		}
		for _, o := range rows {
			if o.HasName(nameOrPrefix) && o.State == api.SnapshotReady {
				return o.ID, nil
			}
		}
		if page.Cursor = next; next == "" {
			break
		}
	}
	return s.cfg.Rows.FindSnapshotOf(ctx, p.Account, nameOrPrefix)
}

// changeable fails unless the caller sees a snapshot and may change it.
func (s *Sandboxes) changeable(ctx context.Context, id api.SnapshotID) error {
	p, row, err := s.getSnapshot(ctx, id)
	if err == nil && !p.May(row.Account) {
		err = denied("changing a template of the operator")
	}
	return err
}

// RemoveSnapshot removes a snapshot of the caller's.
func (s *Sandboxes) RemoveSnapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error) {
	return ifAllowed(s.changeable(ctx, id), func() (api.Snapshot, error) { return s.cfg.Saver.RemoveSnapshot(ctx, id) })
}

// TagSnapshot gives a template of the caller's more tags.
func (s *Sandboxes) TagSnapshot(ctx context.Context, id api.SnapshotID, req api.TagSnapshot) (api.Snapshot, error) {
	return ifAllowed(s.changeable(ctx, id), func() (api.Snapshot, error) { return s.cfg.Saver.TagSnapshot(ctx, id, req) })
}

// UntagSnapshot takes a tag from a template of the caller's.
func (s *Sandboxes) UntagSnapshot(ctx context.Context, id api.SnapshotID, tag string) (api.Snapshot, error) {
	return ifAllowed(s.changeable(ctx, id), func() (api.Snapshot, error) { return s.cfg.Saver.UntagSnapshot(ctx, id, tag) })
}

// CreateTemplate makes a template of the caller's account, which hides the
// operator's of the same name from it.
func (s *Sandboxes) CreateTemplate(ctx context.Context, req api.CreateTemplate, progress func(step string)) (api.Snapshot, error) {
	return s.cfg.Quota.CreateTemplate(ctx, req, progress)
}

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
	if err == nil && row.HasName(name) {
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
	if !api.ValidSnapshotName(name) {
		return api.Snapshot{}, notFound("snapshot", name)
	}
	id, err := t.rows.FindSnapshot(ctx, name)
	if err != nil {
		return api.Snapshot{}, err
	}
	return t.rows.GetSnapshot(ctx, id)
}

// ImageStore keeps container images. Its methods are those of oci.Images.
type ImageStore interface {
	Pull(ctx context.Context, req api.PullImage, progress func(step string)) (api.Image, error)
	List() []api.Image
	Find(name string) (api.Image, error)
	Remove(name string) (api.Image, error)
}

// Images guards the container images. A pull uses the operator's registry credentials, can read
// files of the daemon's machine and fills the disk that all accounts share, so only an admin
// pulls and removes. Images belong to no account: every caller can list and use them.
type Images struct{ s ImageStore }

// NewImages guards them.
func NewImages(s ImageStore) *Images { return &Images{s} }

// Pull makes an image available. The caller must be an admin, and one without an API key if the
// reference is a path.
func (i *Images) Pull(ctx context.Context, req api.PullImage, progress func(step string)) (api.Image, error) {
	p, err := caller(ctx)
	if err != nil {
		return api.Image{}, err
	}
	if p.Role != api.RoleAdmin {
		return api.Image{}, denied("pulling an image")
	}
	if p.Key != "" && req.FromFile() {
		return api.Image{}, api.Errorf(api.KindDenied, "the image %.100q is a file on the daemon's machine, which an API key cannot use", req.Reference).
			WithHint("use an image of a registry, or the daemon's own socket on its machine")
	}
	return i.s.Pull(ctx, req, progress)
}

// List returns the images.
func (i *Images) List(ctx context.Context) ([]api.Image, error) {
	p, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	list := i.s.List()
	for n := range list {
		list[n] = shown(p, list[n])
	}
	return list, nil
}

// Get returns an image by the name of its template, its ID or its reference.
func (i *Images) Get(ctx context.Context, name string) (api.Image, error) {
	p, err := caller(ctx)
	if err != nil {
		return api.Image{}, err
	}
	if p.Role != api.RoleAdmin && (api.PullImage{Reference: name}).FromFile() {
		return api.Image{}, notFound("image", name)
	}
	img, err := i.s.Find(name)
	return shown(p, img), err
}

// shown hides from users where on the daemon's machine an image was read.
func shown(p api.Principal, img api.Image) api.Image {
	if p.Role != api.RoleAdmin && (api.PullImage{Reference: img.Reference}).FromFile() {
		img.Reference = path.Base(img.Reference)
	}
	return img
}

// Remove removes an image. The caller must be an admin.
func (i *Images) Remove(ctx context.Context, name string) (api.Image, error) {
	return ifAllowed(administrator(ctx, "removing an image"), func() (api.Image, error) { return i.s.Remove(name) })
}
