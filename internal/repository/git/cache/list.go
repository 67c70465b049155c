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

// Cached is one repository of a cache.
type Cached struct {
	// Name is what the cache calls it, a hash of its address.
	Name string
	Path string
	// Used is when it was last written to, or brought up to date.
	Used time.Time
}

// List gives the repositories that are there, by their names.
func (c *Cache) List() ([]Cached, error) {
	entries, err := os.ReadDir(c.cfg.Dir)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "the cache of repositories: %w", err)
	}
	var out []Cached
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".git")
		if !ok || !e.IsDir() || !git.IsHash(name) {
			continue
		}
		used, err := os.Stat(filepath.Join(c.cfg.Dir, name+".lock"))
		if err != nil {
			continue // it is being made, or removed
		}
		out = append(out, Cached{Name: name, Path: filepath.Join(c.cfg.Dir, e.Name()), Used: used.ModTime()})
	}
	return out, nil
}

// Remove removes a repository with all that tasks made in it; nil when it is not
// there. KindConflict while somebody writes to it. Whoever reads from it at that
// moment fails: the caller sees to it that no task needs it.
func (c *Cache) Remove(ctx context.Context, name string) error {
	if !git.IsHash(name) {
		return api.Errorf(api.KindInvalid, "%.80q is no repository of the cache", name)
	}
	base := filepath.Join(c.cfg.Dir, name)
	now, cancel := context.WithCancel(ctx)
	cancel() // nobody is waited for
	f, err := lockFile(now, base+".lock")
	if err != nil {
		if ctx.Err() == nil {
			err = api.Errorf(api.KindConflict, "repository %.12s of the cache is in use", name)
		}
		return err
	}
	defer f.Close()
	// Renamed first: what is cut short must not look whole. The next writer clears it.
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
