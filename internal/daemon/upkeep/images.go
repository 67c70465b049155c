package upkeep

import (
	"context"
	"path/filepath"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

// images takes the container images that no template names and that were not used for long. Their
// layers are taken with those that nothing names.
func (c *collection) images(ctx context.Context) error {
	images := c.k.cfg.Images
	if images == nil {
		return nil
	}
	for _, img := range images.Unused(c.cutoff) {
		why := "the image " + img.Reference + " has no template and was not used since " + img.UsedAt.UTC().Format(time.DateOnly)
		err := c.take(ctx, admin.PartLayers, "image "+img.ID, filepath.Join(c.k.cfg.Dir, "images", img.ID+".json"), why, func() error {
			_, err := images.Remove(img.ID)
			if api.KindOf(err) == api.KindNotFound {
				return errHeld
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
