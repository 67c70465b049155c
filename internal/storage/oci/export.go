package oci

import (
	"archive/tar"
	"cmp"
	"context"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/layer/archive"
	"hortus.dev/internal/storage/oci/export"
	"hortus.dev/internal/storage/oci/settings"
	"hortus.dev/internal/storage/oci/users"
)

// Saved is what a sandbox of layers has become, for ExportSaved.
type Saved struct {
	// Name is what the exported image is called.
	Name   string
	Layers []layer.Digest
	// Above writes the layer with what the sandbox wrote.
	Above     export.Layer
	CreatedAt time.Time
}

// Export writes an image as an archive that Docker, Podman, skopeo and Pull read (package
// export): its files and settings, without what Hortus adds to them. It writes nothing before
// every layer was read once.
//
// Errors: KindNotFound if there is no such image, or if one of its layers is missing;
// KindUnsupported for files that a layer of an image cannot hold; those of w and ctx.
func (s *Images) Export(ctx context.Context, name string, w io.Writer) error {
	img, err := s.Find(name)
	if err != nil {
		return err
	}
	if _, err := s.Layers(img.ID); err != nil { // it notes the use
		return err
	}
	_, architecture, _ := strings.Cut(img.Platform, "/")
	return s.export(ctx, w, digests(img), export.Image{Name: img.ID + ":latest", Architecture: architecture, Created: img.CreatedAt}, nil)
}

// ExportSaved writes a saved sandbox in the same form. Its errors are those of Export, and
// KindUnsupported for one that does not depend on a container image.
func (s *Images) ExportSaved(ctx context.Context, saved Saved, w io.Writer) error {
	return s.export(ctx, w, saved.Layers, export.Image{Name: saved.Name + ":latest", Created: saved.CreatedAt}, saved.Above)
}

// export writes the layers of a sandbox, the lowest first, and what lies above them, unless it is nil.
func (s *Images) export(ctx context.Context, w io.Writer, layers []layer.Digest, out export.Image, above export.Layer) error {
	trees := map[layer.Digest]layer.Tree{}
	for _, d := range layers {
		if strings.HasPrefix(string(d), "host-") {
			return api.Errorf(api.KindUnsupported, "the template shows this machine's own programs, which cannot be exported").
				WithHint("start from an image: hortus template create NAME --from-image REFERENCE")
		}
		tree, lease, err := s.cfg.Layers.Lease(d)
		if err != nil {
			return err
		}
		defer lease.Release()
		trees[d] = tree
	}
	top, set, err := s.topOf(layers)
	if err != nil {
		return err
	}
	// The top layer and the base below it are Hortus's own.
	own := slices.Concat(layers[:top-1], layers[top+1:])
	if err := s.describe(&out, *set, trees[layers[top]].Path, layers[:top-1]); err != nil {
		return err
	}
	switch original, err := settings.ReadOriginal(s.cfg.Layers, layers[top]); {
	case err != nil:
		return err
	case original != nil:
		out.Config = export.Config(*original)
	}
	written := make([]export.Layer, 0, len(own)+2)
	for _, d := range own {
		written = append(written, func(ctx context.Context, w io.Writer) error {
			_, err := archive.Pack(ctx, w, trees[d].Root, os.Geteuid() == 0)
			return err
		})
	}
	out.Layers = append(written, out.Layers...)
	if above != nil {
		out.Layers = append(out.Layers, above)
	}
	out.Architecture = cmp.Or(out.Architecture, runtime.GOARCH)
	return export.Write(ctx, w, out)
}

// topOf finds the layer with the settings of an image.
func (s *Images) topOf(layers []layer.Digest) (int, *settings.Settings, error) {
	for i := len(layers) - 1; i > 0; i-- {
		set, err := settings.Read(s.cfg.Layers, layers[i])
		if set != nil || err != nil {
			return i, set, err
		}
	}
	return 0, nil, api.Errorf(api.KindUnsupported, "the template does not start from a container image, so it cannot be exported").
		WithHint("start from an image: hortus template create NAME --from-image REFERENCE")
}

// describe gives an image the settings of its sandboxes, in the form of an image's, and a layer with its working directory if its own layers
// have none.
func (s *Images) describe(out *export.Image, set settings.Settings, search string, layers []layer.Digest) error {
	view, _, err := openStack(s.cfg.Layers, layers)
	if err != nil {
		return err
	}
	defer view.close()
	passwd, err := view.read("/etc/passwd")
	if err != nil {
		return err
	}
	group, err := view.read("/etc/group")
	if err != nil {
		return err
	}
	missing, err := view.missing(set.Dir)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		out.Layers = []export.Layer{func(_ context.Context, w io.Writer) error { return packDirs(w, missing, out.Created) }}
	}
	out.Env = []string{"PATH=" + strings.TrimPrefix(search, ownBin+":")}
	for _, name := range envNames(set.Env) {
		out.Env = append(out.Env, name+"="+set.Env[name])
	}
	out.Entrypoint, out.Cmd, out.WorkingDir, out.User = set.Entrypoint, set.Cmd, set.Dir, exportedUser(set.User, passwd, group)
	return nil
}

// exportedUser returns the shortest USER that the image's own files resolve to a user. A user that
// Hortus added is not in them.
func exportedUser(u api.UserRecord, passwd, group string) string {
	uid, gid := strconv.Itoa(int(u.UID)), strconv.Itoa(int(u.GID))
	for _, name := range []string{u.Name, uid, u.Name + ":" + gid} {
		if got, err := users.Find(name, passwd, group); err == nil && got.UID == u.UID && got.GID == u.GID && slices.Equal(got.Groups, u.Groups) {
			return name
		}
	}
	return uid + ":" + gid
}

// packDirs writes the archive of a layer of directories. Its root is that of Hortus's top layer.
func packDirs(w io.Writer, dirs []dirEntry, at time.Time) error {
	out := tar.NewWriter(w)
	for _, d := range append([]dirEntry{{Path: ".", Mode: 0o755}}, dirs...) {
		h := &tar.Header{Typeflag: tar.TypeDir, Name: d.Path + "/", Mode: int64(d.Mode), ModTime: at}
		if os.Geteuid() == 0 {
			h.Uid, h.Gid = d.UID, d.GID
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
	}
	return out.Close()
}
