package docker

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/client"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/backend/leased"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/layer/archive"
	"hortus.dev/internal/storage/oci/export"
)

// repository is the name of the images that the backend loads.
const repository = "hortus-layers"

// root is what a sandbox starts from: leased layers, and the image of the engine that was loaded of them.
type root struct {
	*leased.Layers
	// layers are those of the Spec; name is that of the image.
	layers []layer.Digest
	name   string
	// places are further directories of the image.
	places []string
}

// lease leases layers until release.
func (b *Backend) lease(layers []layer.Digest) (*root, error) {
	l, err := leased.Lease(b.cfg.Layers, layers)
	if err != nil {
		return nil, err
	}
	if b.at.far {
		for _, t := range l.Trees {
			if len(t.Mounts) > 0 {
				l.Release()
				return nil, api.Errorf(api.KindUnsupported, "the template shows directories of this machine, which the Docker engine at %s does not have", b.at.text).
					WithHint("Use a template of a container image: hortus template create NAME --from-image REF")
			}
		}
	}
	sum := sha256.Sum256([]byte(label(layers) + b.guestDigest))
	return &root{Layers: l, layers: layers, name: repository + ":" + b.owner + "-" + hex.EncodeToString(sum[:16])}, nil
}

// label lists layers in the label of an image.
func label(layers []layer.Digest) string {
	var all []string
	for _, d := range layers {
		all = append(all, string(d))
	}
	return strings.Join(all, ",")
}

// ensureImage loads the layers into the engine, unless it has them. fresh says not to rely on what the
// engine had earlier.
func (b *Backend) ensureImage(ctx context.Context, r *root, fresh bool) error {
	unlock, err := b.loading.Lock(ctx, r.name)
	if err != nil {
		return err
	}
	defer unlock()
	b.mu.Lock()
	have := b.loaded[r.name] && !fresh
	b.mu.Unlock()
	if have {
		return nil
	}
	got, err := b.engine.ImageInspect(ctx, r.name)
	switch {
	case cerrdefs.IsNotFound(err):
		if err := b.load(ctx, r); err != nil {
			return err
		}
	case err != nil:
		return engineError("look for image "+r.name, err)
	case got.Config == nil || got.Config.Labels[labelImage] != b.owner || got.Config.Labels[labelLayers] != label(r.layers):
		return api.Errorf(api.KindConflict, "the image %s of the Docker engine was not made by this daemon", r.name).
			WithHint("Remove it: docker image rm %s", r.name)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loaded[r.name] = true
	return nil
}

// load writes an image of the layers into the engine. Its configuration is this backend's: nothing
// that the author of a container image wrote into it reaches the engine.
func (b *Backend) load(ctx context.Context, r *root) error {
	b.sweepImages(ctx)
	img := export.Image{Name: r.name, Architecture: runtime.GOARCH, Config: export.Config{
		Labels: map[string]string{labelImage: b.owner, labelLayers: label(r.layers), labelGuest: b.guestDigest},
	}}
	for _, t := range r.Trees {
		img.Layers = append(img.Layers, func(ctx context.Context, w io.Writer) error {
			_, err := archive.Pack(ctx, w, t.Root, os.Geteuid() == 0)
			return err
		})
	}
	// The places of mounts are directories, whatever the layers have there.
	targets := append([]string{initns.EngineDir, workspaceDir}, r.places...)
	for _, t := range r.Trees {
		for _, m := range t.Mounts {
			targets = append(targets, m.Target)
		}
	}
	img.Layers = append(img.Layers, mountPoints(targets))
	if b.at.far {
		img.Layers = append(img.Layers, b.guestLayer)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := stream(func(w io.Writer) error { return export.Write(ctx, w, img) }, func(r io.Reader) error {
		res, err := b.engine.ImageLoad(ctx, r, client.ImageLoadWithQuiet(true))
		if err == nil {
			err = loadError(res)
			res.Close()
		}
		return err
	})
	if err != nil {
		return engineError("load the layers of the sandbox into the Docker engine", err)
	}
	return nil
}

// guestLayer is the layer with the guest's executable, for an engine at another host. Root inside may replace the file there, which
// nothing executes after the start.
func (b *Backend) guestLayer(_ context.Context, w io.Writer) error {
	f, err := os.Open(b.cfg.Guest)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	out := tar.NewWriter(w)
	dir := strings.TrimPrefix(initns.EngineDir, "/")
	for _, h := range []*tar.Header{
		{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}, {Typeflag: tar.TypeDir, Name: dir + "/bin/", Mode: 0o755},
		{Typeflag: tar.TypeReg, Name: dir + "/bin/" + initns.Argv0, Mode: 0o555, Size: st.Size()},
	} {
		if err := out.WriteHeader(h); err != nil {
			return err
		}
	}
	if _, err := io.Copy(out, f); err != nil {
		return err
	}
	return out.Close()
}

// loadError reads the engine's messages about a load to the end, and returns the error in them.
func loadError(r io.Reader) error {
	for d := json.NewDecoder(io.LimitReader(r, 1<<20)); ; {
		var m struct{ Error string }
		switch err := d.Decode(&m); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case m.Error != "":
			return errors.New(m.Error)
		}
	}
}

// sweepImages removes the images of layers that this machine does not have any more. Those that a
// container uses stay.
func (b *Backend) sweepImages(ctx context.Context) {
	all, err := b.engine.ImageList(ctx, client.ImageListOptions{Filters: client.Filters{}.Add("label", labelImage+"="+b.owner)})
	if err != nil {
		return // the load fails too, and says why
	}
	for _, img := range all.Items {
		if b.stale(img) {
			if _, err := b.engine.ImageRemove(ctx, img.ID, client.ImageRemoveOptions{PruneChildren: true}); err != nil && !cerrdefs.IsConflict(err) {
				b.log.Warn("cannot remove an image of the Docker engine", "image", img.ID, "error", err)
			}
		}
	}
}

// stale reports whether an image of this daemon has a layer that is not in the store, or another guest.
func (b *Backend) stale(img image.Summary) bool {
	layers, ok := img.Labels[labelLayers]
	return ok && img.Labels[labelImage] == b.owner && (img.Labels[labelGuest] != b.guestDigest || slices.ContainsFunc(strings.Split(layers, ","), func(d string) bool {
		return !layer.Digest(d).Valid() || !b.cfg.Layers.Has(layer.Digest(d))
	}))
}
