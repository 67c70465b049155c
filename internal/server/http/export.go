package http

import (
	"context"
	"io"
	"net/http"

	"hortus.dev/api"
)

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
