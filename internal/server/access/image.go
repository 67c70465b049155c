package access

import (
	"context"
	"path"

	"hortus.dev/api"
)

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
