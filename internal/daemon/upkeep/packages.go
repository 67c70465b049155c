package upkeep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"hortus.dev/api/admin"
)

// packages takes the packages that no sandbox has used for long, as one item; and all of them if
// the package cache is switched off.
func (c *collection) packages(ctx context.Context) error {
	path := filepath.Join(c.k.cfg.Dir, "packages")
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	cache := c.k.cfg.Packages
	if cache == nil {
		return c.take(ctx, admin.PartPackages, "packages", path, "the package cache is switched off", func() error { return os.RemoveAll(path) })
	}
	n, bytes, err := cache.Collect(ctx, c.cutoff, c.dry)
	if err != nil || n == 0 {
		return err
	}
	c.out.Bytes += bytes
	c.out.Items = append(c.out.Items, admin.CollectedItem{
		Part: admin.PartPackages, Name: fmt.Sprintf("%d packages", n), Bytes: bytes,
		Why: "not used since " + c.cutoff.Format(time.DateOnly),
	})
	return nil
}
