package export

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/image"
	"hortus.dev/internal/backend/jail/upper"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/oci"
	"hortus.dev/internal/storage/snapshot"
)

// The limits of what a sandbox wrote, in an exported image: those of a layer that is pulled.
const (
	maxEntries = 2_000_000
	maxBytes   = 64 << 30
)

// Templates are the templates of a daemon. Images that were pulled are exported by oci.Images.
type Templates struct {
	*oci.Images
	Snapshots *snapshot.Store
}

// ExportSnapshot writes a saved sandbox as an image. It fails with KindUnsupported for one with
// memory, and for one over this machine's own programs. A saved sandbox becomes its layers and one with
// what it wrote, which is converted while it is written: no copy of it is stored.
func (e Templates) ExportSnapshot(ctx context.Context, s api.Snapshot, w io.Writer) error {
	if s.Kind != api.SnapshotFiles {
		return api.Errorf(api.KindUnsupported, "template %s holds the memory of a sandbox, which an image cannot have", nameOf(s)).
			WithHint("create it with --isolation container, which saves files")
	}
	s, dir, done, err := e.Snapshots.Use(ctx, s.ID)
	if err != nil {
		return err
	}
	defer done()
	f, err := os.OpenFile(filepath.Join(dir, image.FilesName), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return api.Errorf(api.KindUnsupported, "template %s was saved by the backend %s, whose files cannot be exported", nameOf(s), s.Image.Backend).
			WithHint("create it with --isolation container, which saves files")
	}
	if err != nil {
		return api.Errorf(api.KindInternal, "snapshot %s: %w", s.ID, err)
	}
	defer f.Close()
	layers := make([]layer.Digest, len(s.Layers))
	for i, d := range s.Layers {
		layers[i] = layer.Digest(d)
	}
	err = e.ExportSaved(ctx, oci.Saved{Name: nameOf(s), Layers: layers, CreatedAt: s.CreatedAt, Above: func(ctx context.Context, w io.Writer) error {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		return upper.Tar(ctx, w, f, upper.TarOptions{Entries: maxEntries, Bytes: maxBytes})
	}}, w)
	var refused *upper.RefusedError
	if errors.As(err, &refused) {
		return api.Errorf(api.KindUnsupported, "template %s has a file that an image cannot have: %s", nameOf(s), refused.Error()).
			WithHint("create the template without it")
	}
	return err
}

// nameOf returns the template that a snapshot is known as, or its ID.
func nameOf(s api.Snapshot) string {
	if s.Name != "" {
		return s.Name
	}
	return string(s.ID)
}
