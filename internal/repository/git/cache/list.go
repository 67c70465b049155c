package cache

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
)

// Cached is a repository of a cache.
type Cached struct {
	// Name is a hash of its address.
	Name string
	Path string
	// Used is when it was last written to or fetched.
	Used time.Time
}

// List returns the repositories in the cache, sorted by name.
func (c *Cache) List() ([]Cached, error) {
	entries, err := os.ReadDir(c.cfg.Dir)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "repository cache: %w", err)
	}
	var out []Cached
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".git")
		if !ok || !e.IsDir() || !git.IsHash(name) {
			continue
		}
		used, err := os.Stat(filepath.Join(c.cfg.Dir, name+".lock"))
		if err != nil {
			continue // being created or removed
		}
		out = append(out, Cached{Name: name, Path: filepath.Join(c.cfg.Dir, e.Name()), Used: used.ModTime()})
	}
	return out, nil
}

// Remove removes a repository with all commits of tasks in it; it is idempotent.
// KindConflict while it is being written to. Concurrent readers fail, so the caller must
// ensure that no task uses it.
func (c *Cache) Remove(ctx context.Context, name string) error {
	if !git.IsHash(name) {
		return api.Errorf(api.KindInvalid, "%.80q is not a repository of the cache", name)
	}
	base := filepath.Join(c.cfg.Dir, name)
	now, cancel := context.WithCancel(ctx)
	cancel() // do not wait
	f, err := lockFile(now, base+".lock")
	if err != nil {
		if ctx.Err() == nil {
			err = api.Errorf(api.KindConflict, "repository %.12s of the cache is in use", name)
		}
		return err
	}
	defer f.Close()
	// Rename it first: an interrupted removal must not look complete. The next writer
	// removes the rest.
	aside := base + ".new"
	err = os.RemoveAll(aside)
	if err == nil {
		if err = os.Rename(base+".git", aside); os.IsNotExist(err) {
			return nil
		}
	}
	if err == nil {
		err = os.RemoveAll(aside)
	}
	if err != nil {
		return api.Errorf(api.KindInternal, "remove repository %.12s of the cache: %w", name, err)
	}
	return nil
}
