package http

import (
	"context"
	"net/http"

	"hortus.dev/api"
)

// Images is what the server asks of container images. progress receives the steps of a pull, one
// after the other, before the method returns. A name is that of an image's template, its ID or
// its reference.
type Images interface {
	Pull(ctx context.Context, req api.PullImage, progress func(step string)) (api.Image, error)
	List(ctx context.Context) ([]api.Image, error)
	Get(ctx context.Context, name string) (api.Image, error)
	Remove(ctx context.Context, name string) (api.Image, error)
}

func (d images) imageRoutes() []Route {
	return []Route{{
		Method: "POST", Pattern: "/v1/images", Name: "pullImage", Role: api.RoleAdmin, Creates: true,
		Doc: `Make a container image available, for sandboxes to start from. ` + linesDoc + `with the image.`,
		In:  api.PullImage{}, OutType: typeLines, Out: api.ImageLine{},
		Handler: d.pull,
	}, {
		Method: "GET", Pattern: "/v1/images", Name: "images", Role: api.RoleUser,
		Doc:     "List the images: those with the name of a template first, then the others by reference.",
		Out:     []api.Image{},
		Handler: d.list,
	}, {
		Method: "GET", Pattern: "/v1/images/{name}", Name: "image", Role: api.RoleUser,
		Doc:     "Get an image, by the name of its template, its ID or its reference. The slashes of a reference are escaped as %2F.",
		Out:     api.Image{},
		Handler: d.one(Images.Get),
	}, {
		Method: "DELETE", Pattern: "/v1/images/{name}", Name: "removeImage", Role: api.RoleAdmin,
		Doc:     "Remove an image. Running sandboxes keep its files.",
		Out:     api.Image{},
		Handler: d.one(Images.Remove),
	}}
}

// service returns the images, or an error if the daemon has no store of them.
func (d images) service() (Images, error) {
	if d.Images == nil {
		return nil, api.Errorf(api.KindUnsupported, "this daemon has no store of images")
	}
	return d.Images, nil
}

// pull streams the steps of a pull and its image. If the client disconnects, the pull is
// cancelled, and no image is changed.
func (d images) pull(w http.ResponseWriter, r *http.Request) error {
	var in api.PullImage
	if err := decode(w, r, &in); err != nil {
		return err
	}
	s, err := d.service()
	if err != nil {
		return err
	}
	if err := d.free(r.Context(), in.Name); err != nil {
		return err
	}
	out := lines{w: w}
	v, err := s.Pull(r.Context(), in, func(step string) { out.write(api.ImageLine{Type: api.LineStep, Step: step}) })
	if err == nil {
		out.write(api.ImageLine{Type: api.LineDone, Image: &v})
	}
	return out.end(err)
}

// free refuses the name of a template that is a snapshot: sandboxes would start from that.
func (d images) free(ctx context.Context, name string) error {
	if !api.ValidSnapshotName(name) { // none, or one that the store refuses
		return nil
	}
	id, err := d.Snapshots.FindSnapshot(ctx, name)
	if err != nil {
		if api.KindOf(err) == api.KindNotFound {
			return nil
		}
		return err
	}
	have, err := d.Snapshots.GetSnapshot(ctx, id)
	if err != nil || !have.HasName(name) {
		return err
	}
	return api.Errorf(api.KindExists, "template %s is a snapshot of a sandbox", name).WithHint("choose another name, or remove it first: hortus template rm %s", name)
}

func (d images) list(w http.ResponseWriter, r *http.Request) error {
	s, err := d.service()
	if err != nil {
		return err
	}
	v, err := s.List(r.Context())
	if v == nil {
		v = []api.Image{}
	}
	return reply(w, http.StatusOK, v, err)
}

// one serves a call about the image that the path names.
func (d images) one(call func(Images, context.Context, string) (api.Image, error)) handler {
	return give(func(r *http.Request) (api.Image, error) {
		name := r.PathValue("name")
		if !api.ValidImageName(name) {
			return api.Image{}, api.Errorf(api.KindInvalid, "%.80q is not the name, the ID or the reference of an image", name)
		}
		s, err := d.service()
		if err != nil {
			return api.Image{}, err
		}
		return call(s, r.Context(), name)
	})
}

// named lists the images that have a name as templates.
func (d images) named(ctx context.Context) (out []api.Template, err error) {
	if d.Images == nil {
		return nil, nil
	}
	list, err := d.Images.List(ctx)
	for _, img := range list {
		if img.Name != "" {
			out = append(out, api.Template{Name: img.Name, Image: &img})
		}
	}
	return out, err
}
